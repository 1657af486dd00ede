import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import torch

from ringtrain.checkpoint import memory as memory_module
from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.memory import Memory, Slot, free_slots, make_room
from ringtrain.contract import memory
from ringtrain.contract.mesh import Mesh


@pytest.fixture
def descriptors() -> Iterator[list[int]]:
    found = [os.memfd_create(f"test{index}") for index in range(memory.TOTAL)]
    yield found
    for descriptor in found:
        os.close(descriptor)


def manifest(round: int, size: int, generation: str = "1.0") -> Manifest:
    return Manifest(
        job="gpt",
        generation=generation,
        round=round,
        mesh=Mesh(data=1),
        created=datetime.now(UTC),
        files=(ManifestFile(rank=0, path="local", size=size, sha256=""),),
    )


def fill(slot: Slot, round: int, content: bytes = b"abc", generation: str = "1.0") -> None:
    slot.clear()
    (room,) = slot.resize([len(content)])
    room.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    slot.finish(manifest(round, len(content), generation))


def test_a_snapshot_outlives_the_process_that_took_it(descriptors: list[int]) -> None:
    child = os.fork()
    if child == 0:
        fill(Memory(descriptors).snapshots[0], 7, b"from the child")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    ((found, slot),) = Memory(descriptors).held()
    assert found.round == 7
    assert slot.files[0].path.read_bytes() == b"from the child"


def test_a_process_killed_while_it_writes_leaves_the_other_snapshot(descriptors: list[int]) -> None:
    for slot, round in zip(Memory(descriptors).snapshots, (6, 7), strict=True):
        fill(slot, round)
    child = os.fork()
    if child == 0:
        _, (room,) = make_room(Memory(descriptors).snapshots, [5])
        room.fill_(1)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert [found.round for found, _ in Memory(descriptors).held()] == [7]


@pytest.mark.parametrize("torn", [b"{", b"", b"\0" * 400])
def test_a_torn_index_is_no_snapshot(descriptors: list[int], torn: bytes) -> None:
    fill(Memory(descriptors).snapshots[1], 7)
    index = descriptors[memory.FILES]
    os.ftruncate(index, 0)
    os.pwrite(index, torn, 0)
    assert Memory(descriptors).held() == []


def test_files_grow_and_shrink(descriptors: list[int]) -> None:
    slot = Memory(descriptors).snapshots[0]
    for size in (3, 10_000_000, 5, 20_000_000, 1):
        fill(slot, 1, bytes([size % 251]) * size)
        assert slot.files[0].path.read_bytes() == bytes([size % 251]) * size
        assert bytes(slot.files[0].content.numpy().data) == bytes([size % 251]) * size


def test_too_much_is_a_memory_error(descriptors: list[int]) -> None:
    with pytest.raises(MemoryError, match=f"there are no {1 << 62} bytes of memory left for a snapshot"):
        Memory(descriptors).snapshots[0].resize([1 << 62])


def test_the_oldest_that_nobody_reads_is_written_next(descriptors: list[int]) -> None:
    slots = Memory(descriptors).snapshots
    assert free_slots(slots) == slots
    fill(slots[0], 9, generation="1.9")
    assert free_slots(slots) == [slots[1], slots[0]]
    fill(slots[1], 3, generation="1.10")
    assert free_slots(slots) == slots
    slots[0].acquire()
    slots[0].acquire()
    slots[0].release()
    assert free_slots(slots) == [slots[1]]
    slots[1].acquire()
    assert free_slots(slots) == []
    with pytest.raises(MemoryError, match="a former checkpoint is still being written"):
        make_room(slots, [1])
    slots[0].release()
    assert free_slots(slots) == [slots[0]]


def test_where_memory_is_short_of_a_second_snapshot_one_takes_all(
    descriptors: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 1 << 20
    machine = 1.5 * size

    def available() -> int:
        return int(machine - sum(os.fstat(descriptor).st_blocks * 512 for descriptor in descriptors))

    monkeypatch.setattr(memory_module, "available_bytes", available)
    slots = Memory(descriptors).snapshots
    for round in range(1, 4):
        slot, (room,) = make_room(slots, [size])
        room.fill_(round)
        slot.finish(manifest(round, size))
        assert [found.round for found, _ in Memory(descriptors).held()] == [round]
    with pytest.raises(MemoryError, match=f"there are no {2 * size} bytes of memory left for a snapshot"):
        make_room(slots, [2 * size])
    # What cannot be had costs nothing that is there; what is there counts for what grows.
    assert [found.round for found, _ in Memory(descriptors).held()] == [3]
    slot, _ = make_room(slots, [size + size // 4])
    assert slot is slots[0]


def test_an_agents_memory_comes_by_the_environment(descriptors: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    fill(Memory(descriptors).copies[1], 4)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    monkeypatch.setenv(memory.VARIABLE, ",".join(map(str, descriptors)))
    ((found, _),) = Memory.from_environment().held()
    assert found.round == 4
    assert memory.VARIABLE not in os.environ
    assert not any(os.get_inheritable(descriptor) for descriptor in descriptors)


def test_a_wrong_number_of_descriptors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.VARIABLE, "3,4")
    with pytest.raises(ValueError, match="RINGTRAIN_MEMORY_FDS names 2 descriptors, expected 16"):
        Memory.from_environment()
