from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtrain.checkpoint.volume import candidates, commit
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import ShardsWritten
from trainer.checkpoint import saver_bodies as bodies
from trainer.comm.ranks import Crew

pytestmark = pytest.mark.distributed


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew() as crew:
        yield crew


def one(crew: Crew, body: Any, *arguments: Any) -> Any:
    (result,) = crew.run(1, body, *arguments)
    return result


def test_what_was_written_while_training_went_on_makes_a_checkpoint(crew: Crew, tmp_path: Path) -> None:
    written, still_read, totals = one(crew, bodies.save_while_training, tmp_path)
    message = ShardsWritten.model_validate(written)
    assert message.layout
    commit(tmp_path, bodies.GENERATION, 5, {0: message.files}, Mesh(data=1), job="gpt")
    assert [found.problem for found in candidates(tmp_path)] == [""]
    assert not still_read
    size = sum(file.size for file in message.files)
    assert (totals["committed"], totals["snapshots"], totals["written_bytes"]) == (1, 1, size)
    assert totals["write_seconds"] == 2


def test_a_save_that_is_due_while_another_runs_is_skipped_and_counted(crew: Crew, tmp_path: Path) -> None:
    rounds, totals, warnings = one(crew, bodies.skip_what_is_due_too_early, tmp_path)
    assert rounds == [15, 20]
    assert (totals["skipped"], totals["committed"], totals["failed"]) == (2, 1, 0)
    (warning,) = warnings
    assert warning.startswith("after 30 s the checkpoint of round 5 is still being written, so that of round 10 is")


def test_all_ranks_skip_what_one_cannot_save(crew: Crew, tmp_path: Path) -> None:
    rounds, totals, files = one(crew, bodies.skip_when_another_rank_writes, tmp_path)
    assert (rounds, totals["skipped"], files) == ([5], 1, [])


@pytest.mark.parametrize(
    ("every", "rounds"),
    [
        (1, [[1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7]]),
        (3, [[], [], [3], [3], [3], [3, 6], [3, 6]]),
        (0, [[]] * 7),
    ],
)
def test_memory_holds_the_two_newest_snapshots(crew: Crew, tmp_path: Path, every: int, rounds: list[list[int]]) -> None:
    assert one(crew, bodies.remember_only_what_is_due, tmp_path, every) == rounds


def test_a_volume_that_takes_no_more_costs_only_the_checkpoint(crew: Crew, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    told, left, totals, rounds = one(crew, bodies.fail, tmp_path / "file", "")
    assert "Not a directory" in told["reason"]
    assert (left, totals["failed"], totals["committed"], rounds) == ([], 1, 0, [5])


def test_what_the_coordinator_gave_up_is_removed(crew: Crew, tmp_path: Path) -> None:
    _, left, totals, rounds = one(crew, bodies.fail, tmp_path, "rank 1: full")
    assert (left, totals["failed"], rounds) == ([], 1, [5])


def test_a_commit_that_never_comes_is_given_up(crew: Crew, tmp_path: Path) -> None:
    reason, writing = one(crew, bodies.never_answered, tmp_path)
    assert reason.startswith("it was not committed within")
    assert not writing


@pytest.mark.parametrize(("error", "left"), [("", 3), ("rank 1: full", 0)])
def test_files_that_a_commit_may_need_stay(crew: Crew, tmp_path: Path, error: str, left: int) -> None:
    """The time-out of a rank may come while the coordinator commits."""
    assert one(crew, bodies.committed_late, tmp_path, error) == (3, left)


@pytest.mark.parametrize("writes", [True, False])
def test_ranks_that_have_written_remember_what_those_do_that_write(crew: Crew, tmp_path: Path, writes: bool) -> None:
    """Else a rank that dies while it copies leaves no round that all hold."""
    assert one(crew, bodies.remember_while_writing, tmp_path, writes)[:2] == [[5, 6], [5, 7]]


def test_what_only_the_step_changes_is_copied_beside_the_passes(crew: Crew, tmp_path: Path) -> None:
    assert one(crew, bodies.copy_beside_the_passes, tmp_path / "volume") == (True, True, [5], [0.0] * 3)


def test_a_left_generation_completes_the_snapshot_of_its_last_round(crew: Crew, tmp_path: Path) -> None:
    assert one(crew, bodies.leave_while_copying, tmp_path) == ([4], False)


def test_a_volume_that_hangs_holds_up_nobody(crew: Crew, tmp_path: Path) -> None:
    assert one(crew, bodies.hanging_volume, tmp_path / "volume") == (True, 1, [5], 10)


def test_a_left_generation_leaves_no_half_checkpoint(crew: Crew, tmp_path: Path) -> None:
    assert one(crew, bodies.left_in_mid_write, tmp_path / "volume") == ([], True)


@pytest.mark.parametrize(
    ("asked", "saving", "expected"),
    [(True, True, ([3], "preempted", 3)), (False, True, ([3], "", 3)), (True, False, ([], "preempted", None))],
)
def test_before_a_stop_all_ranks_save(
    crew: Crew, tmp_path: Path, asked: bool, saving: bool, expected: tuple[list[int], str, int | None]
) -> None:
    assert one(crew, bodies.stop_at_the_end_of_the_round, tmp_path, asked, saving) == expected


def test_the_last_round_is_saved_once(crew: Crew, tmp_path: Path) -> None:
    assert one(crew, bodies.finish, tmp_path) == [5, 7]


def test_a_left_generation_interrupts_the_wait(crew: Crew, tmp_path: Path) -> None:
    assert "replica 1 is gone" in one(crew, bodies.interrupted, tmp_path)


def test_a_finished_round_is_kept_whatever_breaks_its_end_off(crew: Crew, tmp_path: Path) -> None:
    found, snapshots = one(crew, bodies.broken_off, tmp_path)
    assert found == [[1], [1, 2], [1, 2], [1, 2], [2, 5]]
    assert snapshots == 3


def test_a_snapshot_without_memory_costs_only_the_checkpoint(crew: Crew, tmp_path: Path) -> None:
    reason, rounds = one(crew, bodies.without_room, tmp_path)
    assert "bytes of memory left for a snapshot" in reason
    assert rounds == []


def test_with_memory_for_one_snapshot_it_is_used_for_all(crew: Crew, tmp_path: Path) -> None:
    assert one(crew, bodies.with_room_for_one, tmp_path) == ([[1], [2], [2]], [2, 5], [5])


def test_a_thousand_saves_leave_nothing_behind(crew: Crew, tmp_path: Path) -> None:
    (descriptors, threads, mapped, files), last = one(crew, bodies.save_again_and_again, tmp_path, 1000)
    assert last[:2] == (descriptors, threads)
    assert last[3] == files
    assert last[2] <= mapped + 4096
