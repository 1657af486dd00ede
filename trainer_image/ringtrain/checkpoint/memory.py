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
from ringtrain.checkpoint.room import available_bytes
from ringtrain.contract import memory
from ringtrain.contract.generation import Generation

_BLOCK = 512
"""Bytes: what stat counts in, of any file system."""


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
            # Here a want of memory is an error; while it is written it would be the kernel's to kill for it.
            if self.lacks(size) > available_bytes():
                raise MemoryError(f"there are no {size} bytes of memory left for a snapshot")
            self._mapped = None
            # Room for a text that grows: mapping anew would touch all pages anew.
            room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE + mmap.PAGESIZE
            os.ftruncate(self._descriptor, room)
            self._mapped = torch.frombuffer(mmap.mmap(self._descriptor, room), dtype=torch.uint8)
        os.ftruncate(self._descriptor, size)
        self._size = size
        return self._mapped[:size]

    def lacks(self, size: int) -> int:
        """Bytes of memory that it takes more than now to have `size`."""
        return max(0, size - os.fstat(self._descriptor).st_blocks * _BLOCK)

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

    def lacks(self, sizes: Sequence[int]) -> int:
        """Bytes of memory that it takes more than now for files of these sizes."""
        return sum(file.lacks(size) for size, file in zip(sizes, self.files, strict=False))

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
        self.made = MemoryFile(os.memfd_create("ringtrain-made"))
        """For files that are made anew."""

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


def free_slots(slots: Iterable[Slot]) -> list[Slot]:
    """Those that nobody reads, in the order in which to write them: empty ones first, then the oldest snapshot."""
    return sorted((slot for slot in slots if not slot.in_use), key=lambda slot: _age(slot.manifest))


def make_room(slots: Iterable[Slot], sizes: Sequence[int]) -> tuple[Slot, list[Tensor]]:
    """One of these slots, cleared, with files of so many bytes, uint8, to be written: the first that is free, and has
    or gets the memory. So where there is too little for all slots, one takes all snapshots. Raises MemoryError."""
    free = free_slots(slots)
    if not free:
        raise MemoryError("its memory has no room: a former checkpoint is still being written")
    available = available_bytes()
    for slot in free:
        if slot.lacks(sizes) <= available:
            slot.clear()
            return slot, slot.resize(sizes)
    raise MemoryError(f"there are no {sum(sizes)} bytes of memory left for a snapshot")


def name_of(manifest: Manifest) -> CheckpointName:
    return CheckpointName(Generation.parse(manifest.generation), manifest.round)


def _age(manifest: Manifest | None) -> tuple[int, int, int]:
    if manifest is None:
        return (-1, -1, -1)
    name = name_of(manifest)
    return (name.generation.epoch, name.generation.attempt, name.round)
