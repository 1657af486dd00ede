from typing import Any

import pytest
import torch

from trainer.comm import bodies
from trainer.comm.ranks import Crew

pytestmark = pytest.mark.distributed

SIZE = 3


def _expected(micro_batches: int, branch_of: list[bool]) -> tuple[dict[str, torch.Tensor], int, float]:
    """The mean over the joined batch, by one process."""
    model = bodies.net()
    loss, rows = torch.zeros((), dtype=torch.float64), 0
    for rank in range(SIZE):
        for micro in range(micro_batches):
            x = bodies.data(rank, micro)
            loss = loss + model(x, branch_of[rank] or micro < micro_batches - 1).square().sum().double()
            rows += len(x)
    (loss / rows).backward()  # type: ignore[no-untyped-call]
    expected = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in model.named_parameters()
    }
    return expected, rows, loss.item()


def _check(results: list[Any], expected: tuple[dict[str, torch.Tensor], int, float]) -> None:
    gradients, rows, loss = expected
    for reduced, weight, total_loss, traffic, closed in results:
        assert weight == rows
        assert total_loss == pytest.approx(loss)
        assert reduced.keys() == gradients.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(torch.tensor(reduced[name]), gradient.flatten())
        assert reduced == results[0][0]  # Bit for bit on all ranks.
        assert 0 <= traffic.exposed_seconds <= traffic.round_seconds
        assert traffic.inter.sent_bytes >= traffic.inter.raw_bytes > 0
        assert traffic.intra.sent_bytes == 0
        assert closed == {}


@pytest.mark.parametrize("bucket_bytes", [1100, 4000, 1 << 20])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_gradients_are_those_of_the_joined_batch(crew: Crew, bucket_bytes: int, micro_batches: int) -> None:
    everywhere = [True] * SIZE
    results = crew.run(SIZE, bodies.reduce, bucket_bytes, micro_batches, everywhere)
    _check(results, _expected(micro_batches, everywhere))


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("branch_of", [[True, False, True], [False, False, False]])
def test_a_parameter_unused_by_some_ranks_counts_as_zero(crew: Crew, branch_of: list[bool], micro_batches: int) -> None:
    results = crew.run(SIZE, bodies.reduce, 1100, micro_batches, branch_of)
    _check(results, _expected(micro_batches, branch_of))


def test_ranks_may_finish_gradients_in_different_orders(crew: Crew) -> None:
    rounds = 8
    results = crew.run(SIZE, bodies.permuted, rounds)
    mean_rank = (SIZE + 1) / 2
    expected = {str(index): [mean_rank + index] * (100 + 300 * index) for index in range(6)}
    assert all(gradients == expected for result in results for _, gradients in result)
    assert all(len({result[number][0] for result in results}) > 1 for number in range(rounds))


def test_two_backward_passes_without_accumulate_are_refused(crew: Crew) -> None:
    (message,) = crew.run(1, bodies.twice)
    assert "arrived once more" in message
    assert "accumulate()" in message


def test_training_is_repeatable_bit_for_bit(crew: Crew) -> None:
    first = crew.run(SIZE, bodies.train, 3)
    second = crew.run(SIZE, bodies.train, 3)
    longer = crew.run(SIZE, bodies.train, 4)
    assert first == second == [first[0]] * SIZE
    assert longer != first
