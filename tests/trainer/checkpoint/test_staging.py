import os
import threading

import pytest
import torch

from ringtrain.checkpoint.memory import Memory, Slot
from ringtrain.checkpoint.shard import Image
from ringtrain.checkpoint.staging import Pairs, Staging
from ringtrain.checkpoint.worker import Worker
from ringtrain.contract import memory
from trainer.checkpoint.test_memory import manifest

PATIENCE = 60.0


@pytest.fixture
def slot() -> Slot:
    return Memory([os.memfd_create("test") for _ in range(memory.TOTAL)]).snapshots[0]


class Hold:
    """Keeps a worker from what is submitted next."""

    def __init__(self, worker: Worker) -> None:
        self.released = threading.Event()
        worker.submit(self._hold)

    def _hold(self) -> None:
        assert self.released.wait(PATIENCE)


def pairs(slot: Slot, *images: Image) -> Pairs:
    return list(zip(images, slot.resize(image.size for image in images), strict=True))


def values(slot: Slot, index: int) -> list[float]:
    """Of the last tensor in a file, three float32."""
    return slot.files[index].content[-12:].view(torch.float32).tolist()


def test_what_the_passes_change_is_copied_at_once_and_what_the_step_changes_before_it(slot: Slot) -> None:
    own, settled = torch.zeros(3), torch.zeros(3)
    worker, told = Worker("test"), list[str]()
    hold, staging = Hold(worker), Staging(worker, torch.device("cpu"))
    both = pairs(slot, Image("local", {"own": own}, ""), Image("replicated", {"value": settled}, "", settled=True))
    staging.start(slot, both, manifest(5, 1), told.append)
    own.fill_(1)
    assert staging.busy
    assert slot.in_use
    assert slot.manifest is None, "it is no snapshot before all of it is there"
    beats = list[int]()

    def beat() -> None:
        beats.append(1)
        hold.released.set()

    staging.wait(beat)
    settled.fill_(2)
    assert beats
    assert told == [""]
    assert not slot.in_use
    assert slot.manifest == manifest(5, 1).model_copy(update={"created": slot.manifest.created})
    assert (values(slot, 0), values(slot, 1)) == ([0.0] * 3, [0.0] * 3)


def test_a_state_that_nothing_keeps_is_copied_before_training_goes_on(slot: Slot) -> None:
    value, worker, told = torch.ones(3), Worker("test"), list[str]()
    hold = Hold(worker)
    Staging(worker, torch.device("cpu")).start(
        slot, pairs(slot, Image("replicated", {"value": value}, "")), manifest(5, 1), told.append
    )
    value.fill_(7)
    assert told == [""]
    assert values(slot, 0) == [1.0] * 3
    hold.released.set()


def test_what_cannot_be_copied_leaves_no_snapshot(slot: Slot) -> None:
    class Broken(Image):
        def copy_to(self, memory: torch.Tensor) -> None:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    told = list[str]()
    staging = Staging(Worker("test"), torch.device("cpu"))
    staging.start(
        slot, pairs(slot, Broken("replicated", {"value": torch.ones(3)}, "", settled=True)), manifest(5, 1), told.append
    )
    staging.finish()
    assert told == ["the state could not be copied: CUDA error: an illegal memory access was encountered"]
    assert slot.manifest is None
    assert not slot.in_use


def test_an_interruption_ends_the_wait_and_not_the_copying(slot: Slot) -> None:
    worker, told = Worker("test"), list[str]()
    hold, staging = Hold(worker), Staging(worker, torch.device("cpu"))
    image = Image("replicated", {"value": torch.ones(3)}, "", settled=True)
    staging.start(slot, pairs(slot, image), manifest(5, 1), told.append)

    def interrupted() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        staging.wait(interrupted)
    hold.released.set()
    staging.finish()
    assert told == [""]
    assert slot.manifest is not None
