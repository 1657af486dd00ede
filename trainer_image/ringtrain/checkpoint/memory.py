"""The first tier: snapshots in memory that outlives the rank's process, for its agent owns it.

A snapshot is the rank's files of a checkpoint, and an index written last: a manifest that lists these files only. So a
process that is killed while it writes leaves either a whole snapshot or none, and never touches the other one.
"""

import mmap
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from ringtrain.checkpoint.manifest import DamagedManifest, Manifest, seal, unseal
from ringtrain.checkpoint.names import CheckpointName
from ringtrain.contract import memory
from ringtrain.contract.generation import Generation


class MemoryFile:
    """An anonymous file and its mapping, which is kept: memory that was touched before is written faster."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._mapped: Tensor | None = None
        self._size = 0

    @property
    def path(self) -> Path:
        """Of this process only."""
        return Path(f"/proc/self/fd/{self._descriptor}")

    def resize(self, size: int) -> Tensor:
        """All bytes of the file, which has so many from now on, as uint8: what was in them is lost.

        Raises MemoryError when there is not so much memory.
        """
        if self._mapped is None or len(self._mapped) < size:
            self._mapped = None
            # Here a want of memory is an error; while it is written it would be the kernel's to kill for it.
            if size > available_bytes():
                raise MemoryError(f"the machine has no {size} bytes of memory left for a snapshot")
            # Room for a text that grows: mapping anew would touch all pages anew.
            room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE + mmap.PAGESIZE
            os.ftruncate(self._descriptor, room)
            self._mapped = torch.frombuffer(mmap.mmap(self._descriptor, room), dtype=torch.uint8)
        os.ftruncate(self._descriptor, size)
        self._size = size
        return self._mapped[:size]

    @property
    def content(self) -> Tensor:
        """All bytes, uint8, as this process has written them; after a `resize`."""
        assert self._mapped is not None
        return self._mapped[: self._size]


class Slot:
    """Room for one snapshot."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        """An index's, and those of files."""
        self._index, *others = descriptors
        self.files = tuple(MemoryFile(descriptor) for descriptor in others)
        self._lock = threading.Lock()
        self._users = 0

    @property
    def manifest(self) -> Manifest | None:
        """Of the snapshot that is here; None when there is none, or no whole one."""
        data = os.pread(self._index, os.fstat(self._index).st_size, 0)
        try:
            return unseal(data) if data else None
        except DamagedManifest:
            return None

    def resize(self, sizes: Iterable[int]) -> list[Tensor]:
        """Files of so many bytes, uint8, to be written. Raises MemoryError."""
        return [file.resize(size) for size, file in zip(sizes, self.files, strict=False)]

    def clear(self) -> None:
        """What is here is no snapshot any more."""
        os.ftruncate(self._index, 0)

    def finish(self, manifest: Manifest) -> None:
        """What is here is a snapshot from now on: its files lie in the order of the manifest."""
        self.clear()
        os.pwrite(self._index, seal(manifest), 0)

    @property
    def in_use(self) -> bool:
        """Somebody reads it: it must not be written."""
        return self._users > 0

    def acquire(self) -> None:
        """Until as many `release`s, from any thread."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1


class Memory:
    """What one rank may keep in memory: snapshots of its own, and copies of another rank's."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        """`memory.TOTAL` descriptors of anonymous files, which belong to somebody else."""
        slots = [Slot(descriptors[start : start + memory.FILES]) for start in range(0, memory.TOTAL, memory.FILES)]
        self.snapshots = slots[: memory.SNAPSHOTS]
        self.copies = slots[memory.SNAPSHOTS :]
        self.scratch = MemoryFile(os.memfd_create("ringtrain-scratch"))
        """For files that come from other ranks."""

    @classmethod
    def from_environment(cls) -> Self:
        """That of the agent; without one, memory of this process. Raises ValueError when the agent's word is wrong."""
        # Child processes of the rank must not take it for theirs.
        text = os.environ.pop(memory.VARIABLE, None)
        if text is None:
            return cls([os.memfd_create("ringtrain-snapshot") for _ in range(memory.TOTAL)])
        descriptors = memory.from_text(text)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return cls(descriptors)

    def forget_newer(self, than: CheckpointName | None) -> None:
        """Lets go of snapshots newer than the one that training goes on from, and of all when it is from none: no other
        rank has theirs any more. The one gone back to would otherwise be the oldest, and be written next."""
        for manifest, slot in self.held():
            if than is None or name_of(manifest) > than:
                slot.clear()

    def held(self) -> list[tuple[Manifest, Slot]]:
        """All whole snapshots."""
        pairs = [(slot.manifest, slot) for slot in (*self.snapshots, *self.copies)]
        return [(manifest, slot) for manifest, slot in pairs if manifest is not None]


def available_bytes() -> int:
    """Memory of the machine that can be had without taking it from anybody."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    raise RuntimeError("/proc/meminfo has no MemAvailable")


def free_slot(slots: Iterable[Slot]) -> Slot | None:
    """The one to write next: nobody reads it, and it is empty, or holds the oldest snapshot; None when all are read."""
    free = [(_age(slot.manifest), index, slot) for index, slot in enumerate(slots) if not slot.in_use]
    return min(free)[2] if free else None


def name_of(manifest: Manifest) -> CheckpointName:
    return CheckpointName(Generation.parse(manifest.generation), manifest.round)


def _age(manifest: Manifest | None) -> tuple[int, int, int]:
    if manifest is None:
        return (-1, -1, -1)
    name = name_of(manifest)
    return (name.generation.epoch, name.generation.attempt, name.round)
