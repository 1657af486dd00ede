"""Sharding over the ranks of a machine, by real processes."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.communication import CommunicationConfig
from ringtrain.parallel.sharding import rows
from trainer.comm.ranks import Ranks, by_setting
from trainer.parallel import bodies
from trainer.parallel.bodies import Setting

COMPRESSED = CommunicationConfig(codec="zfp", rate=4, warmup_rounds=1, bucket_mebibytes=0.05, verify=True)


def sharded(processes: int, parallelism: dict[str, Any] | None = None, **fields: Any) -> Setting:
    return Setting(processes=processes, parallelism={"sharding": "machine", **(parallelism or {})}, **fields)


SETTINGS = {
    "gpt alone": (1, Setting()),
    "encoder alone": (1, Setting(kind="encoder")),
    "one machine": (2, sharded(2)),
    "accumulating": (2, sharded(2, accumulation=2)),
    "encoder": (2, sharded(2, kind="encoder")),
    "activation checkpointing": (2, sharded(2, {"activation_checkpointing": True})),
    "bf16": (2, sharded(2, {"precision": "bf16"})),
    "bf16, checkpointing": (2, sharded(2, {"precision": "bf16", "activation_checkpointing": True})),
    "fp16": (2, sharded(2, {"precision": "fp16"})),
    "two machines": (4, sharded(2)),
    "two machines, accumulating": (4, sharded(2, accumulation=2)),
    "without overlap": (4, sharded(2, communication=CommunicationConfig(codec="none", overlap=False, verify=True))),
    "two machines, longer": (4, sharded(2, rounds=4)),
    "compressed": (4, sharded(2, rounds=4, communication=COMPRESSED)),
    "compressed whole": (4, Setting(processes=2, rounds=4, communication=COMPRESSED)),
    "short gpt alone": (1, Setting(context=9)),
    "a rank without rows": (4, sharded(4, context=9)),
}
EXACT = [
    name
    for name, (_, setting) in SETTINGS.items()
    if setting.layout().sharding == "machine"
    and name not in ("compressed", "two machines, longer")
    and "16" not in name
]
SHARDED = [name for name, (_, setting) in SETTINGS.items() if setting.layout().sharding == "machine"]

Results = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def results() -> Results:
    """What each rank of each setting reports."""
    return by_setting(SETTINGS, bodies.train_all)


def whole(results: list[dict[str, Any]], ranks: int, kinds: tuple[str, ...] = ("model",)) -> dict[str, dict[str, Any]]:
    """Every tensor, put together from what each of so many ranks holds of it: the ranks of one copy of the model."""
    found: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for kind in kinds:
        for result in results[:ranks]:
            for name, held in result[kind].items():
                found[kind].setdefault(name, []).append(held)
    return {kind: {name: np.concatenate(parts) for name, parts in found[kind].items()} for kind in kinds}


@given(st.integers(1, 40), st.integers(1, 9))
def test_every_row_is_held_once(total: int, ranks: int) -> None:
    held = [rows(total, ranks, place) for place in range(ranks)]
    assert [row for each in held for row in each] == list(range(total))
    assert len({len(each) for each in held if each.stop < total}) <= 1


@pytest.mark.distributed
@pytest.mark.parametrize("name", EXACT)
def test_shards_train_the_same_model(name: str, results: Results) -> None:
    """Losses, evaluation and parameters are those of one rank, but for the order of additions."""
    _, setting = SETTINGS[name]
    (alone,) = results[f"{'short ' * (setting.context < 16)}{setting.kind} alone"]
    assert alone["losses"][-1] < alone["losses"][0]
    for result in results[name]:
        np.testing.assert_allclose(result["losses"], alone["losses"], rtol=2e-6)
        np.testing.assert_allclose(result["evaluated"], alone["evaluated"], rtol=2e-6)
    found = whole(results[name], setting.processes)["model"]
    assert found.keys() == alone["model"].keys()
    for parameter, value in alone["model"].items():
        np.testing.assert_allclose(found[parameter], value, atol=2e-5, err_msg=parameter)


@pytest.mark.distributed
@pytest.mark.parametrize("name", SHARDED)
def test_twins_hold_the_same_bits(name: str, results: Results) -> None:
    _, setting = SETTINGS[name]
    for rank, result in enumerate(results[name]):
        assert result["digest"] == results[name][rank % setting.processes]["digest"]
        assert result["losses"] == results[name][0]["losses"]
        assert result["whole"] == results[name][0]["whole"]
    assert len({result["digest"] for result in results[name]}) == setting.processes


@pytest.mark.distributed
@pytest.mark.parametrize("name", SHARDED)
def test_each_rank_holds_its_share_of_the_state(name: str, results: Results) -> None:
    _, setting = SETTINGS[name]
    (alone,) = results[f"{'short ' * (setting.context < 16)}{setting.kind} alone"]
    for result in results[name]:
        assert result["bytes"] < 1.02 * alone["bytes"] / setting.processes


@pytest.mark.distributed
def test_rows_are_compressed_as_well_as_whole_parameters(results: Results) -> None:
    exact, compressed = results["two machines, longer"][0], results["compressed whole"][0]
    for result in results["compressed"]:
        assert abs(result["losses"][2] - exact["losses"][2]) > 1e-3
        np.testing.assert_allclose(result["losses"], compressed["losses"], rtol=1e-4)


@pytest.mark.distributed
@pytest.mark.parametrize("name", ["bf16", "bf16, checkpointing", "fp16"])
def test_lower_precision_trains_nearly_the_same(name: str, results: Results) -> None:
    (alone,) = results["gpt alone"]
    for result in results[name]:
        assert not any(result["skipped"])
        assert result["losses"] != alone["losses"]
        np.testing.assert_allclose(result["losses"], alone["losses"], rtol=2e-3)


LAYOUTS = {
    "alone": (1, Setting(accumulation=2)),
    "sharded over 2": (2, sharded(2, accumulation=2)),
    "pipeline of 2": (2, Setting(pipeline=2, accumulation=2)),
    "pipeline cut elsewhere": (2, Setting(pipeline=2, accumulation=2, parallelism={"boundaries": (3,)})),
    "sharded over 2, two machines": (4, sharded(2, accumulation=2)),
    "sharded over 4": (4, sharded(4, accumulation=2)),
}


@pytest.mark.distributed
def test_every_layout_loads_what_any_other_saved(tmp_path: Path) -> None:
    by_size = {size: [name for name, (ranks, _) in LAYOUTS.items() if ranks == size] for size in (1, 2, 4)}
    saved: dict[str, tuple[Path, list[dict[str, Any]]]] = {}
    for size, names in by_size.items():
        with Ranks() as ranks:
            by_rank = ranks.run(size, bodies.save_all, [LAYOUTS[name][1] for name in names], tmp_path)
        for number, name in enumerate(names):
            saved[name] = tmp_path / f"{size}-{number}", [reports[number] for reports in by_rank]
    paths = [path for path, _ in saved.values()]
    for size, names in by_size.items():
        with Ranks() as ranks:
            by_rank = ranks.run(size, bodies.load_all, [LAYOUTS[name][1] for name in names], paths)
        for number, name in enumerate(names):
            for place, (writer, (_, written)) in enumerate(saved.items()):
                loaded = [reports[number][place] for reports in by_rank]
                same_state(name, loaded, writer, written)
                went_on = (2, 1) if writer == name else (2, 0)
                assert {result["progress"] for result in loaded} == {went_on}, f"{writer} -> {name}"


def same_state(name: str, loaded: list[dict[str, Any]], writer: str, written: list[dict[str, Any]]) -> None:
    """As the whole model's, bit by bit; and those that shard have read their share alone."""
    assert {result["whole"] for result in loaded} == {written[0]["whole"]}, f"{writer} -> {name}"
    kinds = ("model", "first", "second")
    ours, theirs = whole(loaded, parts(name), kinds), whole(written, parts(writer), kinds)
    for kind in kinds:
        assert ours[kind].keys() == theirs[kind].keys(), f"{writer} -> {name}"
        for parameter, value in theirs[kind].items():
            assert np.array_equal(ours[kind][parameter], value), f"{writer} -> {name}: {kind} of {parameter}"
    if "sharded" in name:
        total = sum(value.nbytes for value in ours["model"].values())
        assert all(result["read"] < 1.02 * total / parts(name) for result in loaded)


def parts(name: str) -> int:
    """Ranks that hold one copy of the model together."""
    ranks, setting = LAYOUTS[name]
    return setting.mesh(ranks).parts


@pytest.mark.distributed
@pytest.mark.parametrize("size", [2, 4])
def test_resuming_in_the_middle_of_a_round_gives_the_same_bits(size: int, tmp_path: Path) -> None:
    setting = sharded(2, accumulation=2, communication=COMPRESSED.model_copy(update={"error_feedback": "plain"}))
    with Ranks() as ranks:
        for unbroken, resumed in ranks.run(size, bodies.unbroken_and_resumed, setting, tmp_path):
            assert unbroken == resumed


@pytest.mark.distributed
@pytest.mark.parametrize(("lost", "fault"), [(0, signal.SIGSTOP), (1, signal.SIGKILL), (3, signal.SIGSTOP)])
def test_a_lost_rank_holds_nobody(lost: int, fault: signal.Signals) -> None:
    setting = sharded(2)
    with Ranks() as ranks:
        for rank in range(4):
            ranks.start(rank, bodies.lose_a_peer, 4, setting)
        for rank in range(4):
            assert ranks.hear(rank) == "training"
        ranks.signal(lost, fault)
        others = [rank for rank in range(4) if rank != lost]
        for rank in others:
            ranks.say(rank, "leave")
        for rank in others:
            assert ranks.hear(rank) in ("Left", "PeerLost")
            assert ranks.exit_code(rank) == 0
