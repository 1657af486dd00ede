"""The engine as a communication hook of torch's DistributedDataParallel."""

import signal

import pytest
import torch

from ringtrain.contract.communication import CommunicationConfig
from trainer.comm import hook_bodies as bodies
from trainer.comm.ranks import Ranks

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
def test_gradients_are_the_mean(config: CommunicationConfig, weighted: bool) -> None:
    with Ranks() as ranks:
        results = ranks.run(SIZE, bodies.rounds, config, weighted)
    assert results == [results[0]] * SIZE  # Bit for bit.
    for round, found in enumerate(results[0]):
        for gradient, wanted in zip(found, expected(round, weighted), strict=True):
            if config is bodies.PLAIN or wanted.dim() == 1 or wanted.numel() < 1024:
                torch.testing.assert_close(torch.tensor(gradient), wanted)
            elif round < 2:  # Later, error feedback adds what was lost before.
                assert (torch.tensor(gradient) - wanted).norm() <= 0.8 * wanted.norm()


def test_a_copy_of_the_model() -> None:
    with Ranks() as ranks:
        assert ranks.run(2, bodies.copied) == [True, True]


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
        assert [ranks.hear(rank) for rank in others] == [("RuntimeError", True)] * 2
