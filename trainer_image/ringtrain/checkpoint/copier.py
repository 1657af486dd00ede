"""The second tier: each rank's snapshots in the memory of another machine."""

import queue
import threading

import torch
from torch import Tensor

from ringtrain.checkpoint.manifest import seal, unseal
from ringtrain.checkpoint.memory import Memory, Slot, make_room
from ringtrain.comm.errors import Abandoned, PeerLost
from ringtrain.comm.group import Group
from ringtrain.contract.environment import Replicate
from ringtrain.contract.mesh import Mesh

_CHUNK = 16 << 20
_LENGTH = 8
"""Bytes of the number that says how long a manifest is."""


def copies_are_needed(replicate: Replicate, mesh: Mesh, processes: int) -> bool:
    """Whether ranks of machines of `processes` each copy their snapshots, the same for all of them."""
    if mesh.size <= processes or replicate == "Never":
        return False
    return replicate == "Always" or any(
        len({twin // processes for twin in mesh.twins(rank)}) == 1 for rank in range(mesh.parts)
    )


class Copier:
    """Sends snapshots to the rank of the same place in the next machine, and takes those of the machine before, while
    training goes on: on connections of its own, and on a thread of its own."""

    def __init__(self, memory: Memory, group: Group, processes: int) -> None:
        """All ranks of the group together. Raises PeerLost, or what polling raises."""
        members = range(group.rank % processes, group.size, processes)
        self._memory = memory
        self._transport = group.ring(members)
        self._snapshots: queue.SimpleQueue[Slot | _End | None] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self.failure = ""
        """Why copies are over for this generation, when this rank is the cause."""
        self._thread = threading.Thread(target=self._work, name="ringtrain-copier", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a copy is under way. After a peer was lost, for ever: the generation is over."""
        return not self._idle.is_set()

    def copy(self, slot: Slot | None) -> None:
        """Starts to send the snapshot there, or that there is none, and to take the other's. All ranks must do so after
        the same rounds, and only when none is busy."""
        self._idle.clear()
        if slot is not None:
            slot.acquire()
        self._snapshots.put(slot)

    def close(self) -> None:
        """Ends the thread; never waits for a peer."""
        self._transport.abandon()
        self._snapshots.put(_End())
        self._thread.join()

    def _work(self) -> None:
        while not isinstance(slot := self._snapshots.get(), _End):
            try:
                self._exchange(slot)
            except (PeerLost, Abandoned):
                # Whoever polls for the generation's end tells of it.
                continue
            except MemoryError as error:
                # What the peer sends is never taken, so this generation copies nothing any more.
                self.failure = str(error)
                continue
            finally:
                if slot is not None:
                    slot.release()
            self._idle.set()

    def _exchange(self, slot: Slot | None) -> None:
        own = slot.manifest if slot is not None else None
        text = _tensor(seal(own)) if own is not None else torch.empty(0, dtype=torch.uint8)
        files = slot.files[: len(own.files)] if slot is not None and own is not None else ()
        chunks = [chunk for file in files for chunk in _chunks(file.content)]
        length = _tensor(len(text).to_bytes(_LENGTH, "little"))
        # All at once: who waited for the next machine before it received would wait for ever, if all did.
        sends = [self._transport.to_next(tensor) for tensor in (length, text, *chunks) if len(tensor)]
        self._receive()
        for send in sends:
            send.wait()

    def _receive(self) -> None:
        length = torch.zeros(_LENGTH, dtype=torch.uint8)
        self._transport.from_previous(length).wait()
        text = torch.zeros(int.from_bytes(_bytes(length), "little"), dtype=torch.uint8)
        if not len(text):
            return
        self._transport.from_previous(text).wait()
        manifest = unseal(_bytes(text))
        slot, rooms = make_room(self._memory.copies, [file.size for file in manifest.files])
        for room in rooms:
            for chunk in _chunks(room):
                # Not into the slot: when the generation is left, what still runs may write it when nobody expects it.
                arriving = torch.empty_like(chunk)
                self._transport.from_previous(arriving).wait()
                chunk.copy_(arriving)
        slot.finish(manifest)


class _End:
    """Of the thread's work."""


def _chunks(tensor: Tensor) -> list[Tensor]:
    return [tensor[start : start + _CHUNK] for start in range(0, len(tensor), _CHUNK)]


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()
