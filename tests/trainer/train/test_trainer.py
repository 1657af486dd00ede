from pathlib import Path

import pytest

from trainer.comm.ranks import Ranks
from trainer.train import bodies

pytestmark = pytest.mark.distributed

SIZE = 2


@pytest.mark.parametrize("interrupted_at", [2 * bodies.ACCUMULATION, 2 * bodies.ACCUMULATION + 2])
def test_a_resumed_run_is_bitwise_the_unbroken_one(tmp_path: Path, interrupted_at: int) -> None:
    """Between two rounds, and in mid-accumulation; with dropout, so that generators count."""
    with Ranks() as ranks:
        results = ranks.run(SIZE, bodies.unbroken_and_resumed, tmp_path, interrupted_at)
    for unbroken, resumed in results:
        assert resumed == unbroken
        assert unbroken == results[0][0]


def test_every_start_from_the_seed_has_the_same_bits_and_is_quick() -> None:
    with Ranks() as ranks:
        results = ranks.run(SIZE, bodies.start_twice)
    assert {result[0] for result in results} == {result[1] for result in results}
    # Each rank draws its own dropout.
    assert results[0][2] != results[1][2]
    # The compiler would take as long to import as torch.
    assert [result[3:] for result in results] == [[], []]


def test_another_world_size_starts_the_round_again(tmp_path: Path) -> None:
    with Ranks() as ranks:
        saved = ranks.run(SIZE, bodies.save_one, tmp_path)
    with Ranks() as ranks:
        loaded = ranks.run(3, bodies.load_elsewhere, tmp_path, None)
    sequences = 2 * bodies.ACCUMULATION * SIZE * bodies.CONFIG.batch.per_rank
    assert loaded == [(saved[0], (2, 0, sequences))] * 3


def test_another_model_is_refused_by_its_first_tensor(tmp_path: Path) -> None:
    with Ranks() as ranks:
        ranks.run(SIZE, bodies.save_one, tmp_path)
    with Ranks() as ranks:
        ((kind, message),) = ranks.run(1, bodies.load_elsewhere, tmp_path, 96)
    assert kind == "other model"
    assert "embedding.tokens.weight is float32 (" in str(message)
    assert ", 64), but the model's is float32 (" in str(message)
