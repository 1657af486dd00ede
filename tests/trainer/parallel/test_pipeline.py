"""Pipelines of real processes."""

import signal
from typing import Any

import numpy as np
import pytest

from ringtrain.contract.communication import CommunicationConfig
from trainer.comm.ranks import Ranks, by_setting
from trainer.parallel import bodies
from trainer.parallel.bodies import Setting

pytestmark = pytest.mark.distributed

COMPRESSED = CommunicationConfig(codec="zfp", warmup_rounds=1, bucket_mebibytes=0.05, verify=True)
SETTINGS = {
    "gpt alone": (1, Setting()),
    "encoder alone": (1, Setting(kind="encoder")),
    "data parallel": (4, Setting()),
    "pipeline of 4": (4, Setting(pipeline=4, parallelism={"schedule": "GPipe"})),
    "two machines": (4, Setting(pipeline=2, processes=2)),
    "one machine, accumulating": (4, Setting(pipeline=2, processes=4, accumulation=2)),
    "compressed": (4, Setting(pipeline=2, processes=2, rounds=4, communication=COMPRESSED)),
    "interleaved": (2, Setting(pipeline=2, parallelism={"schedule": "Interleaved1F1B"})),
    "encoder": (2, Setting(pipeline=2, kind="encoder", parallelism={"boundaries": (3,)})),
    "activation checkpointing": (2, Setting(pipeline=2, parallelism={"activation_checkpointing": True})),
    "bf16": (2, Setting(pipeline=2, parallelism={"precision": "bf16"})),
    "fp16": (2, Setting(pipeline=2, parallelism={"precision": "fp16"})),
}
EXACT = [name for name in SETTINGS if name not in ("gpt alone", "encoder alone", "compressed", "bf16", "fp16")]

Results = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def results() -> Results:
    """What each rank of each setting reports."""
    return by_setting(SETTINGS, bodies.train_all)


@pytest.mark.parametrize("name", EXACT)
def test_every_mesh_trains_the_same_model(name: str, results: Results) -> None:
    """Losses, evaluation and parameters are those of one rank, but for the order of additions."""
    (alone,) = results[f"{SETTINGS[name][1].kind} alone"]
    assert alone["losses"][-1] < alone["losses"][0]
    for result in results[name]:
        np.testing.assert_allclose(result["losses"], alone["losses"], rtol=2e-6)
        np.testing.assert_allclose(result["evaluated"], alone["evaluated"], rtol=2e-6)
    whole = {name: value for result in results[name] for name, value in result["model"].items()}
    assert whole.keys() == alone["model"].keys()
    for parameter, value in alone["model"].items():
        np.testing.assert_allclose(whole[parameter], value, atol=2e-5, err_msg=parameter)


@pytest.mark.parametrize("name", SETTINGS)
def test_all_that_hold_a_parameter_hold_the_same_bits(name: str, results: Results) -> None:
    _, setting = SETTINGS[name]
    for rank, result in enumerate(results[name]):
        assert result["digest"] == results[name][rank % setting.pipeline]["digest"], "data-parallel twins differ"
        assert result["losses"] == results[name][0]["losses"]
        assert result["whole"] == results[name][0]["whole"]
    assert len({result["tied"] for result in results[name]} - {""}) == 1, "the two ends' embeddings differ"


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_lower_precision_trains_nearly_the_same(precision: str, results: Results) -> None:
    (alone,) = results["gpt alone"]
    for result in results[precision]:
        assert not any(result["skipped"])
        assert result["losses"] != alone["losses"]
        np.testing.assert_allclose(result["losses"], alone["losses"], rtol=2e-3)


@pytest.mark.parametrize(("lost", "fault"), [(0, signal.SIGSTOP), (1, signal.SIGKILL), (2, signal.SIGSTOP)])
def test_a_lost_stage_holds_nobody(lost: int, fault: signal.Signals) -> None:
    setting = Setting(pipeline=3, parallelism={"microbatches": 4})
    with Ranks() as ranks:
        for rank in range(3):
            ranks.start(rank, bodies.lose_a_peer, 3, setting)
        for rank in range(3):
            assert ranks.hear(rank) == "training"
        ranks.signal(lost, fault)
        others = [rank for rank in range(3) if rank != lost]
        for rank in others:
            ranks.say(rank, "leave")
        for rank in others:
            assert ranks.hear(rank) in ("Left", "PeerLost")
            assert ranks.exit_code(rank) == 0
