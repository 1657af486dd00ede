from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ringtrain.contract.environment import Replicate
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from trainer.checkpoint import memory_bodies as bodies
from trainer.checkpoint.checkpoints import save, state
from trainer.comm.ranks import Crew

pytestmark = pytest.mark.distributed

SIZE = 3
MESH = Mesh(data=SIZE)
SAME = [[1, 2, 3]] * SIZE


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew() as crew:
        yield crew


def go(
    crew: Crew,
    root: Path,
    rounds: Sequence[Sequence[int]],
    *,
    lost: Sequence[int] = (),
    replicate: Replicate = "Auto",
    readers: Mesh = MESH,
    torn: Sequence[int] = (),
    every: int = 1000,
    memory_every: int = 1,
) -> list[dict[str, Any]]:
    return crew.run(SIZE, bodies.save_and_load, root, rounds, lost, replicate, readers, torn, every, memory_every)


def assert_restored(results: Sequence[dict[str, Any]], round: int) -> None:
    weights = {name: tensor.tolist() for name, tensor in state(0, round).replicated["model"].items()}
    for rank, result in enumerate(results):
        assert (result["round"], result["weights"], result["own"]) == (round, weights, [rank, round])
        assert result["reports"] == []


def test_the_newest_snapshot_of_all_is_gone_back_to(crew: Crew, tmp_path: Path) -> None:
    results = go(crew, tmp_path, SAME)
    assert_restored(results, 3)
    assert results[0]["name"] == "round-00000003.gen-1.1 in memory"
    assert [round for round, _ in results[0]["held"]] == [2, 3]


def test_a_rank_that_had_no_time_for_the_last_one_sends_all_to_the_one_before(crew: Crew, tmp_path: Path) -> None:
    assert_restored(go(crew, tmp_path, [[1, 2, 3], [1, 2], [1, 2, 3]]), 2)


def test_what_is_newer_than_that_is_written_next(crew: Crew, tmp_path: Path) -> None:
    """Else the one before would be, and a rank that had no time for it again would leave none that all hold."""
    results = go(crew, tmp_path, [[1, 2, 3], [1, 2], [1, 2, 3]])
    assert [result["kept"] for result in results] == [[2], [1, 2], [2]]
    results = go(crew, tmp_path, SAME, lost=[1])
    assert [(result["round"], result["kept"]) for result in results] == [(None, [])] * SIZE


def test_what_goes_to_the_volume_is_copied_too(crew: Crew, tmp_path: Path) -> None:
    """Else it would take the place of a snapshot that was, and the next copy would be the only one."""
    results = go(crew, tmp_path, SAME, lost=[1], replicate="Always", every=3, memory_every=2)
    assert_restored(results, 3)


def test_the_volume_is_gone_back_to_when_a_machine_was_lost(crew: Crew, tmp_path: Path) -> None:
    save(tmp_path, 1, SIZE)
    results = go(crew, tmp_path, SAME, lost=[1])
    assert_restored(results, 1)
    assert results[0]["name"] == "round-00000001.gen-1.0"


@pytest.mark.parametrize("lost", [[0], [1], [2], [0, 2]])
def test_copies_make_up_for_lost_machines(crew: Crew, tmp_path: Path, lost: list[int]) -> None:
    results = go(crew, tmp_path, SAME, lost=lost, replicate="Always")
    # Rank 1 has rank 0's copies, rank 2 those of 1, rank 0 those of 2: with 0 and 2, those of 2 are lost.
    if lost == [0, 2]:
        assert [result["round"] for result in results] == [None] * SIZE
    else:
        assert_restored(results, 3)
    assert [path for _, path in results[1]["held"]] == [
        "local-00000.safetensors",
        "local-00001.safetensors",
    ] * 2


def test_a_newer_generation_on_the_volume_is_newer_than_memory(crew: Crew, tmp_path: Path) -> None:
    save(tmp_path, 2, SIZE, Generation(1, 2))
    assert_restored(go(crew, tmp_path, SAME), 2)


def test_of_the_same_checkpoint_memory_is_read(crew: Crew, tmp_path: Path) -> None:
    save(tmp_path, 3, SIZE, bodies.GENERATION)
    results = go(crew, tmp_path, SAME)
    assert results[0]["name"] == "round-00000003.gen-1.1 in memory"


@pytest.mark.parametrize("readers", [Mesh(data=2), Mesh(data=1)])
def test_another_mesh_reads_what_it_still_holds(crew: Crew, tmp_path: Path, readers: Mesh) -> None:
    results = go(crew, tmp_path, SAME, replicate="Always", readers=readers)[: readers.size]
    # Ranks 0 and 1 hold what all three saved; rank 0 by itself lacks rank 1's.
    expected = 3 if readers.size == 2 else None
    assert [result["round"] for result in results] == [expected] * readers.size
    assert all(result.get("own") is None for result in results)


def test_damage_in_memory_is_passed_over_by_all(crew: Crew, tmp_path: Path) -> None:
    results = go(crew, tmp_path, SAME, torn=[1])
    assert [result["round"] for result in results] == [2] * SIZE
    assert [len(result["reports"]) for result in results] == [0, 1, 0]
    assert "file local-00001.safetensors has 10 bytes" in results[1]["reports"][0]
