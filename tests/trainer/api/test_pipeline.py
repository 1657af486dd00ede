"""Pipelines of a user's layers, in real ranks."""

import signal
from typing import Any

import numpy as np
import pytest

from ringtrain.contract.communication import CommunicationConfig
from trainer.api import pipeline_bodies as bodies
from trainer.api.pipeline_bodies import Setting
from trainer.comm.ranks import Ranks, by_setting

pytestmark = pytest.mark.distributed

COMPRESSED = CommunicationConfig(codec="zfp", warmup_rounds=1, verify=True)
SETTINGS = {
    "alone": (1, Setting()),
    "data parallel": (2, Setting()),
    "pipeline": (2, Setting(parallelism={"pipeline": 2})),
    "gpipe": (2, Setting(parallelism={"pipeline": 2, "schedule": "GPipe", "microbatches": 4})),
    "interleaved": (2, Setting(parallelism={"pipeline": 2, "schedule": "Interleaved1F1B"})),
    "boundaries": (2, Setting(parallelism={"pipeline": 2, "boundaries": (3,)})),
    "activation checkpointing": (2, Setting(parallelism={"pipeline": 2, "activation_checkpointing": True})),
    "accumulating": (2, Setting(parallelism={"pipeline": 2}, accumulation=2)),
    "weighted": (2, Setting(parallelism={"pipeline": 2}, weighted=True)),
    "bf16": (2, Setting(parallelism={"pipeline": 2, "precision": "bf16"})),
    "two machines": (4, Setting(parallelism={"pipeline": 2}, processes=2)),
    "weighted, two machines": (4, Setting(parallelism={"pipeline": 2}, processes=2, weighted=True)),
    "compressed": (4, Setting(parallelism={"pipeline": 2}, processes=2, communication=COMPRESSED)),
}
EXACT = [name for name in SETTINGS if name not in ("alone", "bf16", "compressed")]

INPLACE = (
    "BadConfiguration: layer 2 changes its input in place, and it is the first of a stage, whose input is needed as it "
    "was: build it with inplace=False, or cut elsewhere by boundaries"
)

Results = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def results() -> Results:
    """What each rank of each setting reports."""
    return by_setting(SETTINGS, bodies.train_all)


def merged(reports: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for report in reports for name, value in report["model"].items()}


@pytest.mark.parametrize("name", EXACT)
def test_every_mesh_trains_the_same_model(name: str, results: Results) -> None:
    (alone,) = results["alone"]
    assert alone["losses"][-1] < alone["losses"][0]
    for report in results[name]:
        np.testing.assert_allclose(report["norms"], alone["norms"], rtol=1e-5)
        # Of the last step alone, where several are accumulated.
        if name != "accumulating":
            np.testing.assert_allclose(report["reported"], alone["losses"][-1], rtol=1e-4)
        assert report["whole"] == alone["whole"]
    whole = merged(results[name])
    assert whole.keys() == alone["model"].keys()
    for parameter, value in alone["model"].items():
        if parameter != "5.runs":
            np.testing.assert_allclose(whole[parameter], value, atol=1e-4, err_msg=parameter)


@pytest.mark.parametrize("name", ["pipeline", "gpipe", "interleaved", "weighted"])
def test_the_rank_with_the_last_layer_knows_the_loss(name: str, results: Results) -> None:
    (alone,) = results["alone"]
    first, last = results[name]
    assert first["losses"] == [None] * bodies.ROUNDS
    assert first["evaluated"] is None
    np.testing.assert_allclose(last["losses"], alone["losses"], rtol=1e-5)
    if name != "weighted":
        np.testing.assert_allclose(last["evaluated"], alone["evaluated"], rtol=1e-4)


def test_trying_the_stages_leaves_no_trace(results: Results) -> None:
    """Three rounds and an evaluation, each of 8 micro-batches."""
    assert int(merged(results["pipeline"])["5.runs"]) == (bodies.ROUNDS + 1) * 8


@pytest.mark.parametrize("name", SETTINGS)
def test_all_that_hold_a_parameter_hold_the_same_bits(name: str, results: Results) -> None:
    held: dict[str, Any] = {}
    for report in results[name]:
        for parameter, value in report["model"].items():
            assert np.array_equal(held.setdefault(parameter, value), value)


@pytest.mark.parametrize("name", ["bf16", "compressed"])
def test_what_rounds_trains_nearly_the_same(name: str, results: Results) -> None:
    (alone,) = results["alone"]
    for report in results[name]:
        assert report["reported"] != alone["losses"][-1]
        np.testing.assert_allclose(report["reported"], alone["losses"][-1], rtol=0.05)


@pytest.mark.parametrize(("lost", "fault"), [(0, signal.SIGSTOP), (1, signal.SIGKILL), (2, signal.SIGSTOP)])
def test_a_lost_stage_holds_nobody(lost: int, fault: signal.Signals) -> None:
    with Ranks() as ranks:
        for rank in range(3):
            ranks.start(rank, bodies.lose_a_peer, 3, lost, fault)
        for rank in range(3):
            assert ranks.hear(rank) == "training"
        others = [rank for rank in range(3) if rank != lost]
        for rank in others:
            ranks.say(rank, "leave")
        for rank in others:
            assert ranks.hear(rank) in ("Left", "PeerLost")
            assert ranks.exit_code(rank) == 0


def test_what_can_never_work_is_refused() -> None:
    with Ranks() as ranks:
        for rank, said in enumerate(ranks.run(2, bodies.refused)):
            assert said == [
                "BadConfiguration: spec.parallelism.pipeline is 2, and wrap() takes a whole model: give its layers to "
                "context.pipeline(), or set pipeline 1",
                "BadConfiguration: spec.parallelism asks for 2 stages, and there are 1 layers: every stage needs one",
                "BadConfiguration: parameters 0.weight and 6.weight are one, and lie in two stages: untie them, or "
                "move both into one stage by boundaries",
                "BadConfiguration: a batch of 1 cannot be cut for schedule 1F1B: it needs at least as many parts as "
                "pipeline, 2. A multiple of 2 sequences can",
                "ValueError: a batch of shape (4, 6), torch.int64, but the pipeline's are (8, 6), torch.int64: what "
                "goes through a pipeline never changes its shape",
                "BadConfiguration: spec.parallelism.precision fp16 scales losses, which only the built-in trainer "
                "does: set bf16",
                "BadConfiguration: spec.parallelism's precision, activationCheckpointing and compile are of models "
                "that Ringtrain runs: use torch.autocast, torch.utils.checkpoint and torch.compile in train(), or "
                "context.pipeline()",
                "BadConfiguration: a GradScaler sees only the overflow of this rank's layers: set "
                "spec.parallelism.precision bf16 in its place, or pipeline 1",
                "BadConfiguration: context.pipeline() was given no layers",
                *(["PeerLost", INPLACE][rank : rank + 1]),
                "BadConfiguration: the ranks of a pipeline have other batches: take them from context.loader(), or "
                "from a sampler that counts pipelines, not ranks (context.group.mesh.data of them, this one's number "
                "is context.group.mesh.place(context.rank)[0])",
                f"BadConfiguration: parameter {['0.weight', '6.weight'][rank]} gets gradients, but was not there or "
                "was frozen when wrap() or pipeline() was called, so every rank would move it by its own: what is to "
                "train at any time gets gradients then, and may be frozen by requires_grad_(False) after",
                "ValueError: context.weigh(-1.0): a weight is a number from 0 up, such as of tokens",
            ]


def test_what_a_stage_raises_comes_out_of_the_step() -> None:
    """Not torch's RuntimeError around it: exit codes and messages are made of it."""
    with Ranks() as ranks:
        others, last = ranks.run(2, bodies.refused_by_one)
    assert others == ["PeerLost"] * 4
    assert last == [
        "KeyError: 'mine'",
        "MemoryError: no more",
        "BadConfiguration: loss() gives a number without a gradient: is something detached, or all of it frozen?",
        "BadConfiguration: loss() gives a tensor of shape [1]: it gives one number",
    ]


def test_a_stage_may_have_nothing_to_train() -> None:
    with Ranks() as ranks:
        (alone,) = ranks.run(1, bodies.odd_all)
    with Ranks() as ranks:
        reports = ranks.run(2, bodies.odd_all)
    for number, expected in enumerate(alone):
        found = [report[number] for report in reports]
        for report in found:
            np.testing.assert_allclose(report["norms"], expected["norms"], rtol=1e-5)
        whole = merged(found)
        assert whole.keys() == expected["model"].keys()
        for name, value in expected["model"].items():
            np.testing.assert_allclose(whole[name], value, atol=1e-6, err_msg=f"{number} {name}")
