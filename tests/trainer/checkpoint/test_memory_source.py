from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ringtrain.contract.environment import Recovery, Replicate
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
    changed: Sequence[int] | None = None,
    recovery: Recovery = "Live",
    counted: bool = True,
    lossless: bool = False,
) -> list[dict[str, Any]]:
    settings = (root, rounds, lost, replicate, readers, torn, every, memory_every, changed, recovery, counted, lossless)
    return crew.run(SIZE, bodies.save_and_load, *settings)


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


def test_a_volume_that_cannot_be_listed_is_passed_over(crew: Crew, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    results = go(crew, tmp_path / "loop", SAME)
    assert [(result["round"], result["own"]) for result in results] == [(3, [rank, 3]) for rank in range(SIZE)]
    (report,) = results[0]["reports"]
    assert report.startswith("the checkpoint volume cannot be listed (Too many levels of symbolic links)")
    assert report.endswith("using round 3 in memory")


def test_a_rank_without_memory_for_copies_costs_copies_only(crew: Crew, tmp_path: Path) -> None:
    results = crew.run(2, bodies.take_no_copies, tmp_path)
    # Rank 0 may hold the copy of rank 1's first snapshot as well.
    assert [rounds[-2:] for rounds, _ in results] == [[2, 3]] * 2
    (message,) = results[1][1]
    assert message.startswith("snapshots are not copied any more: its memory has no room")


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


@pytest.mark.parametrize("lost", [[0], [1], [0, 2]])
def test_what_lives_makes_up_for_lost_machines(crew: Crew, tmp_path: Path, lost: list[int]) -> None:
    """All but what a lost rank alone knew."""
    save(tmp_path, 1, SIZE)
    results = go(crew, tmp_path, SAME, lost=lost, changed=[])
    weights = {name: tensor.tolist() for name, tensor in state(0, 3).replicated["model"].items()}
    assert [(result["round"], result["weights"]) for result in results] == [(3, weights)] * SIZE
    assert [result["own"] for result in results] == [None if rank in lost else [rank, 3] for rank in range(SIZE)]
    (report,) = results[0]["reports"]
    assert report.startswith(
        f"the state of lost ranks ({', '.join(map(str, lost))}) after round 3 is that of their twins"
    )


def test_the_furthest_that_lives_is_gone_on_from(crew: Crew, tmp_path: Path) -> None:
    """One rank had done its step when the others were interrupted before theirs, and nowhere all has all its own."""
    results = go(crew, tmp_path, [[1, 2, 3], [1, 2], [1, 2]], lost=[2], changed=[])
    assert [result["round"] for result in results] == [3] * SIZE
    assert [result["own"] for result in results] == [[0, 3], None, None]


def test_a_round_that_some_finished_is_given_up_for_what_every_rank_has_of_its_own(crew: Crew, tmp_path: Path) -> None:
    assert_restored(go(crew, tmp_path, [[1, 2, 3], [1, 2], [1, 2, 3]], changed=[]), 2)
    results = go(crew, tmp_path, [[1, 2, 3, 4], [1, 2], [1, 2, 3, 4]], changed=[])
    assert [result["round"] for result in results] == [4] * SIZE


@pytest.mark.parametrize("recovery", ["Live", "Exact"])
def test_a_round_that_some_finished_is_gone_on_from_where_that_costs_no_bits(
    crew: Crew, tmp_path: Path, recovery: Recovery
) -> None:
    results = go(crew, tmp_path, [[1, 2, 3], [1, 2], [1, 2, 3]], changed=[], lossless=True, recovery=recovery)
    assert [result["round"] for result in results] == [3] * SIZE
    assert [result["own"] for result in results] == [[0, 3], None, [2, 3]]
    assert results[0]["reports"] == ["the state of lost ranks (1) after round 3 is that of their twins"]
    # Where every rank has all of its own of the newest, that is read.
    assert_restored(go(crew, tmp_path, SAME, changed=[], lossless=True, recovery=recovery), 3)


def test_exact_recovery_wants_the_whole_state_of_every_rank(crew: Crew, tmp_path: Path) -> None:
    save(tmp_path, 1, SIZE)
    assert_restored(go(crew, tmp_path, SAME, lost=[1], changed=[], recovery="Exact"), 1)


def test_what_lives_is_not_preferred_to_what_is_whole(crew: Crew, tmp_path: Path) -> None:
    save(tmp_path, 3, SIZE, bodies.GENERATION)
    assert_restored(go(crew, tmp_path, SAME, lost=[1], changed=[]), 3)


@pytest.mark.parametrize("counted", [True, False])
def test_what_was_trained_on_since_its_snapshot_does_not_count(crew: Crew, tmp_path: Path, counted: bool) -> None:
    save(tmp_path, 1, SIZE)
    assert_restored(go(crew, tmp_path, SAME, lost=[1], changed=[0, 2], counted=counted), 1)
    results = go(crew, tmp_path, SAME, lost=[1], changed=[0], counted=counted)
    assert [result["round"] for result in results] == [3] * SIZE


def test_another_mesh_reads_what_lives(crew: Crew, tmp_path: Path) -> None:
    results = go(crew, tmp_path, SAME, lost=[0], changed=[], readers=Mesh(data=2))
    assert [result.get("own") for result in results] == [None] * SIZE
    assert [result["round"] for result in results] == [3, 3, None]
