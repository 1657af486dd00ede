"""Copies a rank's state into memory: what the next passes change at once, and what only their step changes beside them.

So training stands still for little of it, as with the asynchronous staging of torch.distributed.checkpoint.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from ringtrain.checkpoint.manifest import Manifest
from ringtrain.checkpoint.memory import Slot
from ringtrain.checkpoint.shard import Image
from ringtrain.checkpoint.worker import Worker

Pairs: TypeAlias = Sequence[tuple[Image, Tensor]]
"""Files that are still to be written, and memory of their sizes, uint8."""


class Staging:
    """One snapshot at a time."""

    def __init__(self, worker: Worker, device: torch.device) -> None:
        """`device` is where the state lies."""
        self._worker = worker
        self._device = device

    @property
    def busy(self) -> bool:
        """Settled tensors must stay as they are."""
        return self._worker.busy

    def wait(self, beat: Callable[[], None]) -> None:
        """Until they may change. What `beat` raises ends it, and the copying goes on."""
        while not self._worker.wait(0.05):
            beat()

    def finish(self) -> None:
        """Waits for the copying, whatever happens: it waits for nobody but the memory."""
        while not self._worker.wait(1.0):
            pass

    def start(self, slot: Slot, pairs: Pairs, manifest: Manifest, then: Callable[[str], None]) -> None:
        """Makes of the images, with the slot's rooms for them, the snapshot in `slot`, which is in use until `then`
        has returned. It is called with "" when the snapshot is whole, with the reason when there is none; here, or from
        the worker's thread. It must not raise. Not while it is busy."""
        _copy((pair for pair in pairs if not pair[0].settled), self._device)
        later = [pair for pair in pairs if pair[0].settled]
        slot.acquire()
        if later:
            ready = torch.cuda.current_stream(self._device).record_event() if self._device.type == "cuda" else None
            self._worker.submit(partial(self._finish, slot, later, ready, manifest, then))
        else:
            _complete(slot, manifest, then)

    def _finish(
        self,
        slot: Slot,
        pairs: Pairs,
        ready: torch.cuda.Event | None,
        manifest: Manifest,
        then: Callable[[str], None],
    ) -> None:
        try:
            if ready is None:
                _copy(pairs, self._device)
            else:
                # A stream of its own: on the current one it would wait for the passes, and they for it.
                stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
                stream.wait_event(ready)
                with torch.cuda.stream(stream):
                    _copy(pairs, self._device)
        except RuntimeError as error:
            then(f"the state could not be copied: {error}")
            slot.release()
        else:
            _complete(slot, manifest, then)


def _complete(slot: Slot, manifest: Manifest, then: Callable[[str], None]) -> None:
    slot.finish(manifest)
    then("")
    slot.release()


def _copy(pairs: Iterable[tuple[Image, Tensor]], device: torch.device) -> None:
    for image, room in pairs:
        image.copy_to(room)
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
