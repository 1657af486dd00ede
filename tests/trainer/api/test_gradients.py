"""The mean of gradients, in real ranks."""

import signal
from typing import Any

import numpy as np
import pytest
import torch

from trainer.api import bodies
from trainer.comm.ranks import Ranks

pytestmark = pytest.mark.distributed


def close(found: dict[str, Any], expected: dict[str, Any], factor: float = 1.0) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient, factor * expected[name], atol=2e-7, rtol=1e-5, err_msg=name)


def alone(round: int, samples: int = bodies.BATCH, seed: int = 0) -> dict[str, Any]:
    """Gradients of one process on the whole batch."""
    torch.manual_seed(seed)
    model = bodies.net()
    x, y = bodies.data(round)
    bodies.error(model, x[:samples], y[:samples]).backward()
    return bodies.gradients(model)


def test_ranks_start_with_rank_0s_values_and_have_the_gradients_of_one_process() -> None:
    with Ranks() as ranks:
        results = ranks.run(3, bodies.mean)
    assert len({start for start, _, _ in results}) == 1
    for _, own, (first, second) in results:
        assert own
        close(first, alone(1))
        close(second, alone(2))


def test_accumulated_passes_are_one() -> None:
    with Ranks() as ranks:
        for halves, whole in ranks.run(2, bodies.accumulate):
            close(halves, whole)
            close(whole, alone(1))


def test_weights_count_samples() -> None:
    with Ranks() as ranks:
        for found in ranks.run(3, bodies.weighted):
            close(found, alone(1, samples=1 + 2 + 3))


def test_passes_of_one_round_add_up() -> None:
    with Ranks() as ranks:
        for once, twice in ranks.run(2, bodies.two_passes):
            close(once, alone(1))
            close(twice, alone(1), factor=2.0)


def test_a_grad_scaler_skips_the_same_step_everywhere_and_feedback_follows_its_scale() -> None:
    with Ranks() as ranks:
        results = ranks.run(2, bodies.scaled)
    assert len({digest for _, _, digest in results}) == 1
    for rounds, after, _ in results:
        assert [scale for scale, _, _ in rounds] == [2.0**10, 2.0**9, 2.0**9, 2.0**10]
        assert [stepped for _, stepped, _ in rounds] == [True, False, True, True]
        # What the overflow left behind is gone, and of the last round, the scale of which grew, is doubled.
        assert after == pytest.approx(2 * rounds[3][2])


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_backward_pass_that_loses_a_peer_raises_what_the_wait_did(fault: signal.Signals) -> None:
    with Ranks() as ranks:
        for rank in range(3):
            ranks.start(rank, bodies.lose_a_peer, 3, fault)
        for rank in range(3):
            assert ranks.hear(rank) == "training"
        for rank in (0, 2):
            ranks.say(rank, "leave")
        for rank in (0, 2):
            assert ranks.hear(rank) in ("PeerLost", "Left")
            assert ranks.exit_code(rank) == 0


def test_a_model_that_is_kept_is_free_of_the_former_generation() -> None:
    with Ranks() as ranks:
        for first, second in ranks.run(2, bodies.again):
            close(first, second)


def test_what_can_never_work_is_refused() -> None:
    with Ranks() as ranks:
        for said in ranks.run(2, bodies.refused):
            assert said == [
                "context.accumulate() is about gradients: call wrap() or pipeline() before",
                "ranks have other models: tensor weight is float32 (2, 2) on rank 0, but float32 (2, 3) on rank 1",
                "parameter bias is float64: gradients are summed in float32, so parameters must be float32, bfloat16 "
                "or float16",
                "a second model: put both into one nn.ModuleDict and wrap that, so that all ranks sum their gradients "
                "in the same order",
                "context.checkpoint(): optimizer holds a parameter of no module that is saved: give the modules to the "
                "same call, or build the optimizer from the parameters of what wrap() and pipeline() return",
                "context.checkpoint(): loss is a int, which has no state_dict and load_state_dict",
                "round 1 ended without the mean of gradients: every rank makes a backward pass outside of "
                "context.accumulate() in every round, or the others wait for it",
                "context.checkpoint() comes before context.rounds()",
                "context.rounds() was called before: one loop goes through all rounds of a job",
            ]


def test_what_is_not_summed_never_gets_gradients() -> None:
    with Ranks() as ranks:
        for found, (frozen, replaced) in ranks.run(2, bodies.thawed):
            close(found, alone(1))
            assert frozen.startswith("round 2: parameter 0.weight gets gradients, but was not there or was frozen when")
            assert replaced.startswith("round 2: parameter 4.weight gets gradients, but was not there or was frozen")


def test_nested_backward_passes_are_refused() -> None:
    with Ranks() as ranks:
        for said in ranks.run(2, bodies.nested):
            assert "call torch.utils.checkpoint.checkpoint with use_reentrant=False" in said


def test_a_loop_that_is_left_early_ends_its_round() -> None:
    with Ranks() as ranks:
        for found in ranks.run(2, bodies.left_early):
            assert found["rounds"] == (2, 3, 9, 3)
            # Means over the ranks that told one.
            assert found["losses"] == (3.5, 0.25)
            assert found["tokens"] == pytest.approx(2 * 8)
