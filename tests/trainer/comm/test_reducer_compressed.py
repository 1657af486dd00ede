"""The reducer with every codec: several types of parameters, warm-up, error feedback, faults."""

import pytest
import torch

from ringtrain.contract.communication import CommunicationConfig
from trainer.comm import reducer_bodies as bodies
from trainer.comm.ranks import Ranks

pytestmark = pytest.mark.distributed

CONFIGS = [
    CommunicationConfig(codec="none"),
    CommunicationConfig(codec="none", overlap=False, bucket_mebibytes=0.001),
    CommunicationConfig(codec="bf16", algorithm="ring"),
    CommunicationConfig(codec="zfp", algorithm="ring", error_feedback="plain", verify=True, warmup_rounds=0),
    CommunicationConfig(codec="zfp", rate=8, bucket_mebibytes=0.01, warmup_rounds=2),
    CommunicationConfig(codec="int4", rotate=True, error_feedback="damped", algorithm="direct", warmup_rounds=0),
]
FEEDBACK = CommunicationConfig(codec="zfp", error_feedback="plain", warmup_rounds=0)


@pytest.mark.parametrize(("size", "processes"), [(3, 1), (4, 2)])
def test_all_ranks_have_the_same_gradients(size: int, processes: int) -> None:
    with Ranks() as ranks:
        results = ranks.run(size, bodies.mixed, processes, CONFIGS)
    for index, config in enumerate(CONFIGS):
        found = [result[index] for result in results]
        assert len({tuple(digests) for digests, _, _ in found}) == 1
        residuals = found[0][2]
        assert bool(residuals) == (config.error_feedback is not None)
    plain, unlapped = results[0][0], results[0][1]
    assert plain[0] == unlapped[0] or size > 2  # Other buckets: another order of additions.
    wire = {index: results[0][index][1].inter for index in range(len(CONFIGS))}
    assert wire[0].sent_bytes > wire[2].sent_bytes > wire[3].sent_bytes
    # The first rounds of a warm-up are those of bf16, or would be if buckets were the same.
    assert results[0][4][0][0] != results[0][3][0][0]


def test_gradients_are_close_to_the_exact_ones() -> None:
    with Ranks() as ranks:
        exact = ranks.run(2, bodies.gradients, CommunicationConfig(codec="none"))[0]
    for config, bound in (
        (CommunicationConfig(codec="bf16"), 0.01),
        (CommunicationConfig(codec="zfp", rate=8, warmup_rounds=0), 0.1),
        (CommunicationConfig(codec="zfp", warmup_rounds=0), 0.6),
        (CommunicationConfig(codec="int4", warmup_rounds=0), 0.3),
        (CommunicationConfig(codec="zfp", warmup_rounds=1), 0.01),
    ):
        with Ranks() as ranks:
            found = ranks.run(2, bodies.gradients, config)[0]
        for name, wanted in exact.items():
            difference = (torch.tensor(found[name]) - torch.tensor(wanted)).norm()
            small = name.endswith("bias")
            assert difference <= (1e-6 if small else bound) * torch.tensor(wanted).norm(), name


def test_residuals_are_state() -> None:
    with Ranks() as ranks:
        results = ranks.run(2, bodies.resumed, FEEDBACK)
    for unbroken, taken_over, forgotten in results:
        assert unbroken == taken_over
        assert forgotten[0] != unbroken[0]
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "config", [FEEDBACK, CommunicationConfig(codec="int4", warmup_rounds=0)], ids=lambda config: config.codec
)
def test_what_is_not_finite_is_seen_by_all_and_leaves_no_trace(config: CommunicationConfig) -> None:
    with Ranks() as ranks:
        results = ranks.run(2, bodies.overflowing, config)
    assert results[0] == results[1]
    first, second = results[0]
    assert not all(first)
    assert all(second)


def test_a_flipped_bit_is_noticed() -> None:
    with Ranks() as ranks:
        results = ranks.run(2, bodies.flipped)
    assert results == ["the ranks hold different sums in gradient bucket 0: a fault of Ringtrain's own"] * 2


def test_double_precision_is_refused() -> None:
    with Ranks() as ranks:
        (message,) = ranks.run(1, bodies.double)
    assert "parameter bias is float64" in message
