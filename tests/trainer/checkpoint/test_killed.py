"""A save that is killed before any one of its lines loses nothing that was there, and is in nobody's way."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ringtrain.checkpoint import memory as memory_module
from ringtrain.checkpoint import shard, volume
from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.memory import Memory, make_room
from ringtrain.checkpoint.source import VolumeSource
from ringtrain.checkpoint.state import read_files
from ringtrain.contract import memory
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from support.killed import killed_at, lines
from trainer.checkpoint.checkpoints import GENERATION, save, silent, state, write_files

MESH = Mesh(data=2)
KEEP = 2
_SAVING = frozenset(str(module.__file__) for module in (volume, shard))


def save_another(root: Path, generation: Generation = GENERATION) -> Callable[[], None]:
    """What ranks and coordinator do for one more checkpoint."""

    def body() -> None:
        directory = volume.staging(root, generation, 15)
        shards = {rank: write_files(directory, state(rank, 15), rank, range(2)) for rank in range(2)}
        volume.commit(root, generation, 15, shards, MESH, job="gpt")
        volume.prune(root, KEEP)

    return body


def readable(root: Path) -> list[int]:
    """The rounds of all checkpoints that are said to be whole, newest first; all of them are."""
    found = []
    for candidate in volume.candidates(root):
        assert candidate.manifest is not None, f"{candidate.name}: {candidate.problem}"
        for rank in range(2):
            restored = read_files(VolumeSource(candidate.path, candidate.manifest), rank, MESH, silent)
            assert restored.replicated["round"] == candidate.round
            assert restored.local is not None
            assert restored.local["own"].tolist() == [rank, candidate.round]
        found.append(candidate.round)
    return found


def two(root: Path) -> Path:
    for round in (5, 10):
        save(root, round, 2)
    return root


def test_a_save_that_is_killed_at_any_line_loses_nothing(tmp_path: Path) -> None:
    total = lines(save_another(two(tmp_path / "count")), _SAVING)
    assert total > 100
    seen = set()
    for line in range(total):
        root = two(tmp_path / f"line{line}")
        killed_at(save_another(root), _SAVING, line)
        found = readable(root)
        assert found[-2:] == [10, 5] or found[:2] == [15, 10], f"line {line}: {found}"
        seen.add(tuple(found))
        # The next generation saves the same round, and its clean-up leaves nothing behind.
        save_another(root, Generation(1, 1))()
        newest = next(candidate.name for candidate in volume.candidates(root))
        assert (newest.generation, newest.round) == (Generation(1, 1), 15)
        assert len(readable(root)) == KEEP
        assert [path.name for path in root.iterdir() if path.name.startswith(".")] == []
    # Before the commit, after it, and in the midst of the clean-up.
    assert seen >= {(10, 5), (15, 10, 5), (15, 10)}


def test_a_snapshot_that_is_killed_at_any_line_leaves_the_other(tmp_path: Path) -> None:
    descriptors = [os.memfd_create("test") for _ in range(memory.TOTAL)]
    files = frozenset({str(memory_module.__file__)})

    def snapshot(round: int) -> None:
        slot, (room,) = make_room(Memory(descriptors).snapshots, [1000])
        room.fill_(round)
        entry = ManifestFile(rank=0, path="local", size=1000, sha256="")
        slot.finish(
            Manifest(
                job="gpt",
                generation="1.0",
                round=round,
                mesh=Mesh(data=1),
                created="2026-01-01T00:00:00Z",
                files=(entry,),
            )
        )

    def check(newest: set[int]) -> None:
        held = {manifest.round: slot.files[0].path.read_bytes() for manifest, slot in Memory(descriptors).held()}
        assert max(held) in newest
        assert all(content == bytes([round]) * 1000 for round, content in held.items())

    snapshot(1)
    total = lines(lambda: snapshot(2), files)
    assert total > 10
    for line in range(total):
        killed_at(lambda line=line: snapshot(3 + line), files, line)  # type: ignore[misc]
        check({2 + line, 3 + line})
        snapshot(3 + line)
        check({3 + line})
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize("round", [15, 20])
def test_an_older_generation_neither_commits_nor_deletes(tmp_path: Path, round: int) -> None:
    """A coordinator that was cut off comes back: two writers on one volume."""
    two(tmp_path)
    save(tmp_path, 15, 2, Generation(2, 0))
    directory = volume.staging(tmp_path, GENERATION, round)
    shards = {rank: write_files(directory, state(rank, round), rank, range(2)) for rank in range(2)}
    with pytest.raises(volume.CommitRefused, match=r"generation 1\.0 is older than 2\.0"):
        volume.commit(tmp_path, GENERATION, round, shards, MESH, job="gpt")
    assert readable(tmp_path) == [15, 10, 5]
