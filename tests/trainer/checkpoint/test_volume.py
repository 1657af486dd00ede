import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtrain.checkpoint.manifest import FILE_NAME
from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.volume import (
    Candidate,
    CommitRefused,
    Expendable,
    candidates,
    commit,
    delete,
    expendable,
    prune,
    staging,
)
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import ShardFile
from trainer.checkpoint.checkpoints import save_states

FIRST, SECOND = Generation(1, 0), Generation(1, 1)
TWO, THREE = Mesh(data=1, pipeline=2), Mesh(data=3)


def write_shards(root: Path, generation: Generation, round: int, world_size: int = 2) -> dict[int, list[ShardFile]]:
    directory = staging(root, generation, round)
    shards = {}
    for rank in range(world_size):
        data = f"{generation} {round} {rank}".encode()
        (directory / f"local-{rank}").write_bytes(data)
        shards[rank] = [ShardFile(path=f"local-{rank}", size=len(data), sha256=hashlib.sha256(data).hexdigest())]
    return shards


def save(root: Path, round: int, generation: Generation = FIRST) -> Path:
    return commit(root, generation, round, write_shards(root, generation, round), TWO, job="gpt")


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def rounds(root: Path) -> list[int]:
    return [found.round for found in candidates(root) if not found.problem]


def test_a_volume_without_checkpoints(tmp_path: Path) -> None:
    assert candidates(tmp_path / "absent") == candidates(tmp_path) == []
    assert prune(tmp_path, 1) == []


def test_commit(tmp_path: Path) -> None:
    path = save(tmp_path, 5)
    assert path == tmp_path / "round-00000005.gen-1.0"
    (found,) = candidates(tmp_path)
    assert found.path == path
    assert (found.generation, found.round, found.problem) == (FIRST, 5, "")
    assert found.manifest is not None
    assert (found.manifest.job, found.manifest.mesh) == ("gpt", TWO)
    assert [file.path for file in found.manifest.of_rank(1)] == ["local-1"]
    assert names(tmp_path) == [path.name]


def test_a_rank_may_have_no_files(tmp_path: Path) -> None:
    shards = write_shards(tmp_path, FIRST, 5) | {2: []}
    commit(tmp_path, FIRST, 5, shards, THREE, job="gpt")
    assert rounds(tmp_path) == [5]


def test_the_newest_is_the_highest_generation_then_round(tmp_path: Path) -> None:
    save(tmp_path, 20)
    save(tmp_path, 25)
    save(tmp_path, 20, SECOND)
    assert [(found.generation, found.round) for found in candidates(tmp_path)] == [
        (SECOND, 20),
        (FIRST, 25),
        (FIRST, 20),
    ]


def test_an_older_generation_cannot_commit(tmp_path: Path) -> None:
    save(tmp_path, 20, SECOND)
    with pytest.raises(CommitRefused, match=r"generation 1\.0 is older than 1\.1"):
        save(tmp_path, 25, FIRST)
    assert rounds(tmp_path) == [20]


def test_a_checkpoint_is_committed_once(tmp_path: Path) -> None:
    save(tmp_path, 20)
    with pytest.raises(CommitRefused, match="already committed"):
        save(tmp_path, 20)


def cut(path: Path, length: int = 1) -> None:
    path.write_bytes(path.read_bytes()[:-length])


@pytest.mark.parametrize(
    ("damage", "message"), [(Path.unlink, "rank 1: file local-1 is missing"), (cut, "rank 1: file local-1 has 6 bytes")]
)
def test_shards_that_are_not_there_are_not_committed(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    shards = write_shards(tmp_path, FIRST, 5)
    damage(staging(tmp_path, FIRST, 5) / "local-1")
    with pytest.raises(CommitRefused, match=message):
        commit(tmp_path, FIRST, 5, shards, TWO, job="gpt")
    assert candidates(tmp_path) == []


@pytest.mark.parametrize("path", ["../local-1", "/etc/passwd", "a/b", "..", "", FILE_NAME])
def test_only_plain_file_names_are_committed(tmp_path: Path, path: str) -> None:
    shards = write_shards(tmp_path, FIRST, 5)
    shards[1] = [shards[1][0].model_copy(update={"path": path})]
    with pytest.raises(CommitRefused, match="not a plain file name"):
        commit(tmp_path, FIRST, 5, shards, TWO, job="gpt")


def test_every_rank_counts(tmp_path: Path) -> None:
    shards = write_shards(tmp_path, FIRST, 5)
    with pytest.raises(CommitRefused, match=r"ranks 0\.\.2, got those of \[0, 1\]"):
        commit(tmp_path, FIRST, 5, shards, THREE, job="gpt")
    with pytest.raises(CommitRefused, match="same file"):
        commit(tmp_path, FIRST, 5, {0: shards[0], 1: shards[0]}, TWO, job="gpt")


def test_parts_that_nobody_could_put_together_are_not_committed(tmp_path: Path) -> None:
    stages = Mesh(data=1, pipeline=2)

    def save(round: int, *best: float) -> None:
        states = [State({"model": {str(n): torch.zeros(2)}, "best": value}, {}) for n, value in enumerate(best)]
        save_states(tmp_path, states, stages, stages, round)

    save(5, 0.5, 0.5)
    with pytest.raises(CommitRefused, match="parts of the state differ at best: what is saved must be the same on all"):
        save(10, 0.5, 0.25)
    assert only(tmp_path).round == 5


def only(root: Path) -> Candidate:
    (found,) = candidates(root)
    return found


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: (path / FILE_NAME).unlink(), "no manifest"),
        (lambda path: cut(path / FILE_NAME, 2), "manifest is torn"),
        (lambda path: (path / "local-0").unlink(), "file local-0 is missing"),
        (lambda path: cut(path / "local-0"), "file local-0 has 6 bytes, expected 7"),
        (lambda path: path.rename(path.with_name("round-00000010.gen-1.0")), "manifest is of another checkpoint"),
    ],
)
def test_a_damaged_directory_is_listed_with_its_problem(
    tmp_path: Path, damage: Callable[[Path], object], problem: str
) -> None:
    damage(save(tmp_path, 5))
    assert problem in only(tmp_path).problem
    assert only(tmp_path).manifest is None


def test_foreign_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    save(tmp_path, 5)
    save(tmp_path, 10)
    prune(tmp_path, 1)
    assert names(tmp_path) == ["lost+found", "notes.txt", "round-00000010.gen-1.0"]


def test_prune_keeps_the_newest(tmp_path: Path) -> None:
    for round in (5, 10, 15, 20):
        save(tmp_path, round)
    assert prune(tmp_path, 2) == []
    assert names(tmp_path) == ["round-00000015.gen-1.0", "round-00000020.gen-1.0"]


def test_prune_counts_valid_checkpoints_only(tmp_path: Path) -> None:
    for round in (5, 10, 15, 20):
        save(tmp_path, round)
    (tmp_path / "round-00000015.gen-1.0" / FILE_NAME).unlink()
    prune(tmp_path, 2)
    assert rounds(tmp_path) == [20, 10]
    prune(tmp_path, 3)
    assert rounds(tmp_path) == [20, 10]


def test_prune_never_deletes_the_only_valid_checkpoint(tmp_path: Path) -> None:
    for round in (5, 10):
        save(tmp_path, round)
    cut(tmp_path / "round-00000010.gen-1.0" / "local-0")
    prune(tmp_path, 1)
    assert rounds(tmp_path) == [5]
    with pytest.raises(ValueError, match="newest checkpoint must stay"):
        prune(tmp_path, 0)


def test_prune_removes_staging_that_can_never_be_committed(tmp_path: Path) -> None:
    write_shards(tmp_path, FIRST, 30)
    save(tmp_path, 20, SECOND)
    write_shards(tmp_path, SECOND, 15)
    write_shards(tmp_path, SECOND, 25)
    prune(tmp_path, 3)
    assert names(tmp_path) == [".staging.round-00000025.gen-1.1", "round-00000020.gen-1.1"]


def test_prune_keeps_multiples_for_ever(tmp_path: Path) -> None:
    for round in range(5, 65, 5):
        save(tmp_path, round)
        assert prune(tmp_path, 2, 20) == []
    assert rounds(tmp_path) == [60, 55, 40, 20]
    # A volume may not give some of it for a while.
    (tmp_path / "round-00000020.gen-1.0" / "local-0").rename(tmp_path / "away")
    save(tmp_path, 65)
    prune(tmp_path, 1, 20)
    (tmp_path / "away").rename(tmp_path / "round-00000020.gen-1.0" / "local-0")
    assert rounds(tmp_path) == [65, 60, 40, 20]
    prune(tmp_path, 1)
    assert names(tmp_path) == ["round-00000065.gen-1.0"]


def damage(path: Path) -> None:
    cut(path / "local-0")


def tear(path: Path) -> None:
    cut(path / FILE_NAME, 2)


@settings(max_examples=60, deadline=None)
@given(
    saves=st.lists(st.tuples(st.integers(0, 1), st.sampled_from([None, damage, tear])), max_size=8),
    keep=st.integers(1, 4),
    keep_every=st.none() | st.integers(1, 4),
)
def test_prune_loses_nothing_that_is_to_be_kept(
    tmp_path_factory: pytest.TempPathFactory,
    saves: list[tuple[int, Callable[[Path], None] | None]],
    keep: int,
    keep_every: int | None,
) -> None:
    """Rounds go on, or fall back by two with a new generation; some checkpoints break at once."""
    root = tmp_path_factory.mktemp("volume")
    round, generation = 2, FIRST
    for fallen_back, break_it in saves:
        if fallen_back:
            round, generation = max(1, round - 2), Generation(generation.epoch + 1, 0)
        round += 1
        path = save(root, round, generation)
        if break_it is not None:
            break_it(path)
    write_shards(root, Generation(generation.epoch + 1, 0), round)
    before = [found.name for found in candidates(root) if not found.problem]
    assert prune(root, keep, keep_every) == []
    after = [found.name for found in candidates(root) if not found.problem]
    kept = before[:keep]
    assert after == [name for name in before if name in kept or (keep_every and name.round % keep_every == 0)]
    # What is still being written, and what was not judged older than enough valid ones, is there.
    assert staging(root, Generation(generation.epoch + 1, 0), round).name in names(root)
    assert prune(root, keep, keep_every) == []
    assert [found.name for found in candidates(root) if not found.problem] == after


def test_what_is_expendable_is_only_told(tmp_path: Path) -> None:
    for round in (5, 10, 15):
        save(tmp_path, round)
    write_shards(tmp_path, FIRST, 12)
    before = names(tmp_path)
    found = expendable(tmp_path, 1, 10)
    assert [name.round for name in found.checkpoints] == [5]
    assert found.leftovers == (".staging.round-00000012.gen-1.0",)
    assert names(tmp_path) == before
    # Whoever looks closer looks at what counts only.
    looked: list[int] = []

    def whole(candidate: Candidate) -> bool:
        looked.append(candidate.round)
        return candidate.round != 15

    assert [name.round for name in expendable(tmp_path, 1, None, whole).checkpoints] == [5]
    assert looked == [15, 10]
    assert expendable(tmp_path, 1, None, lambda _: False) == Expendable((), ())
    # Somebody else is quicker.
    prune(tmp_path, 1, 10)
    assert delete(tmp_path, found) == []


def test_a_failed_deletion_is_told(tmp_path: Path) -> None:
    for round in (5, 10):
        save(tmp_path, round)
    (tmp_path / ".removed.round-00000005.gen-1.0").write_text("in the way")
    problems = prune(tmp_path, 1)
    assert "could not delete checkpoint round-00000005.gen-1.0" in problems[0]
    assert "could not delete .removed.round-00000005.gen-1.0" in problems[1]
    assert rounds(tmp_path) == [10, 5]


CRASHING_COMMIT = """
import json, os, signal, sys
from pathlib import Path
from ringtrain.checkpoint.volume import commit, prune
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import ShardFile

folder, shards, steps = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
accesses = {"open", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir"}

def count(event, arguments):
    global steps
    if event in accesses and folder in str(arguments[0]):
        steps -= 1
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)

files = {int(rank): [ShardFile.model_validate(file) for file in own] for rank, own in shards.items()}
sys.addaudithook(count)
commit(Path(folder), Generation(1, 0), 10, files, Mesh(data=2), job="gpt")
prune(Path(folder), 1)
"""


def test_a_commit_killed_at_any_step_leaves_all_or_nothing(tmp_path: Path) -> None:
    """The child kills itself just before its first, second, ... access to the volume, until one comes through."""
    seen: set[int | None] = set()
    for steps in range(1, 100):
        root = tmp_path / str(steps)
        save(root, 5)
        shards = write_shards(root, FIRST, 10)
        plain = json.dumps({rank: [file.model_dump() for file in own] for rank, own in shards.items()})
        child = subprocess.run(
            [sys.executable, "-c", CRASHING_COMMIT, str(root), plain, str(steps)],
            timeout=60,
            check=False,
        )
        assert all(not found.problem for found in candidates(root))
        newest = rounds(root)[0]
        assert newest in (5, 10)
        seen.add(newest)
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGKILL
        # Whatever is left behind hinders nobody: the next generation saves the same round, and cleans up.
        save(root, 10, SECOND)
        assert prune(root, 1) == []
        assert names(root) == ["round-00000010.gen-1.1"]
    else:
        pytest.fail("the commit never came through")
    assert steps > 8
    assert seen == {5, 10}


def test_the_coordinator_imports_this_without_torch() -> None:
    code = "import sys; import ringtrain.checkpoint.volume; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
