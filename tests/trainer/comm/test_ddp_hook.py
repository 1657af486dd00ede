"""The engine as a communication hook of torch's DistributedDataParallel."""

import signal

import pytest
import torch

from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.exit_codes import ExitCode
from trainer.comm import hook_bodies as bodies
from trainer.comm.ranks import Crew, Ranks

pytestmark = pytest.mark.distributed

SIZE = 3


def expected(round: int, weighted: bool) -> list[torch.Tensor]:
    """By one process: each rank's own gradients, and their mean."""
    means, weights = [], []
    for rank in range(SIZE):
        model = bodies.build()
        batch = bodies.data(rank, round)
        model(batch).square().mean().backward()
        if round >= 2:
            model(bodies.data(rank, 50 + round)).square().mean().backward()
        means.append(bodies.gradients(model))
        weights.append(float(len(batch)) if weighted else 1.0)
    return [
        sum((weight * each for weight, each in zip(weights, parts, strict=True)), torch.zeros(())) / sum(weights)
        for parts in zip(*means, strict=True)
    ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("config", [bodies.PLAIN, bodies.ZFP], ids=lambda config: config.codec)
def test_gradients_are_the_mean(crew: Crew, config: CommunicationConfig, weighted: bool) -> None:
    results = crew.run(SIZE, bodies.rounds, config, weighted)
    assert results == [results[0]] * SIZE  # Bit for bit.
    for round, found in enumerate(results[0]):
        for gradient, wanted in zip(found, expected(round, weighted), strict=True):
            if config is bodies.PLAIN or wanted.dim() == 1 or wanted.numel() < 1024:
                torch.testing.assert_close(torch.tensor(gradient), wanted)
            elif round < 2:  # Later, error feedback adds what was lost before.
                assert (torch.tensor(gradient) - wanted).norm() <= 0.8 * wanted.norm()


def test_a_copy_of_the_model(crew: Crew) -> None:
    """Sums by DDP's own all-reduce, until the hook is registered there as well."""
    for found in crew.run(2, bodies.copied):
        *wanted, rounds = found["model"]
        assert rounds == 1
        for name, summed in (("copy", 1), ("registered", 2), ("model again", 3)):
            assert found[name] == pytest.approx([*wanted, summed])


def test_a_model_may_be_saved_whole(crew: Crew) -> None:
    assert crew.run(2, bodies.saved) == [[True, True]] * 2


def test_ranks_begin_alike(crew: Crew) -> None:
    told = (
        "HookState's [rounds, whether weight is set] are [0, {}] on rank 0, but [{}, False] on rank 1: set both alike"
    )
    for rounds, weight in crew.run(2, bodies.unequal):
        assert rounds.startswith(told.format("False", 1))
        assert weight.startswith(told.format("True", 0))


def test_each_parameter_is_summed_in_its_own_type(crew: Crew) -> None:
    for result in crew.run(2, bodies.types):
        for found in result:
            assert sorted(dtype for dtype, _, _ in found) == ["torch.bfloat16", "torch.float16", "torch.float32"]
            for dtype, summed, alone in found:
                assert summed == pytest.approx(alone, rel=0.01)
                assert dtype != "torch.float32" or summed > 65504


def test_a_bucket_of_other_parameters_starts_anew(crew: Crew) -> None:
    for result in crew.run(2, bodies.swapped):
        (first, _), (second, kept), (third, kept_again) = result
        assert first == second[::-1]
        assert second == third
        assert (kept, kept_again) == (False, True)


def test_two_models_may_share_a_state(crew: Crew) -> None:
    assert crew.run(2, bodies.shared) == [True, True]


def test_a_state_forgets_models_that_are_gone(crew: Crew) -> None:
    assert crew.run(2, bodies.dropped) == [[1, 1, 1]] * 2


def test_float16(crew: Crew) -> None:
    for found in crew.run(2, bodies.of_range):
        assert found["weighted"] == 32
        assert found["infinite"] == found["infinite, weighted"] == torch.inf


def test_a_fault_is_not_told_as_a_lost_peer(crew: Crew) -> None:
    assert (
        crew.run(2, bodies.faults)
        == [
            [
                ("RuntimeError", False, ExitCode.USER_ERROR),
                ("MemoryError", False, ExitCode.OUT_OF_MEMORY),
                ("OutOfMemoryError", False, ExitCode.OUT_OF_MEMORY),
            ]
        ]
        * 2
    )


def test_what_cannot_be_summed_is_refused(crew: Crew) -> None:
    ((static, double, sparse, destroyed),) = crew.run(1, bodies.refused)
    assert static.startswith("DDP's static_graph=True does not say which bucket is the first pass's last")
    assert "is float64: gradients are summed in float32" in double
    assert sparse == "a gradient is sparse, and only dense ones can be summed: build its layer with sparse=False"
    assert destroyed == "this engine was closed: the generation of its group is over"


def test_settings(crew: Crew) -> None:
    results = crew.run(2, bodies.settings)
    for result in results:
        *plain, compressed = result
        assert [(same, codec, rounds) for same, codec, rounds, _ in plain] == [(True, "none", 3)] * 6
        assert compressed[:3] == (False, "zfp-5", 3)
        values = sum(p.numel() for p in bodies.build().parameters())
        assert all(4 * values <= sent <= 4.1 * values for _, _, _, sent in plain)
        assert compressed[3] < values


def test_a_flipped_bit_is_noticed(crew: Crew) -> None:
    told = "the ranks of part 0 of the model hold different sums of gradients: a fault of Ringtrain's own"
    assert crew.run(2, bodies.flipped) == [told] * 2


def test_residuals_are_state(crew: Crew) -> None:
    results = crew.run(2, bodies.resumed)
    assert results[0] == results[1]
    unbroken, resumed, forgotten, larger = results[0]
    assert resumed == unbroken
    assert forgotten != unbroken
    assert larger == [[4 * value for value in gradient] for gradient in unbroken]


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_rank_ends_the_backward_pass_of_the_others(fault: signal.Signals) -> None:
    others = [0, 2]
    with Ranks() as ranks:
        for rank in range(SIZE):
            ranks.start(rank, bodies.until_lost, SIZE)
        assert [ranks.hear(rank) for rank in range(SIZE)] == ["ready"] * SIZE
        ranks.signal(1, fault)
        for rank in others:
            ranks.say(rank, "leave")
            ranks.say(rank, "end")
        told = {ranks.hear(rank) for rank in others}
        # A stopped process keeps its connections: only polling gets the others out.
        assert told == {"Left"} or (told <= {"Left", "PeerLost"} and fault is signal.SIGKILL)
