import os
from datetime import UTC, datetime

import torch

from ringtrain.checkpoint.living import Living
from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.memory import Memory, MemoryFile
from ringtrain.checkpoint.shard import Image
from ringtrain.checkpoint.state import Replicated, State
from ringtrain.contract import memory
from ringtrain.contract.mesh import Mesh

HOLDERS = (0, 1, 2)


def replicated() -> tuple[Replicated, dict[str, torch.Tensor]]:
    tensors = {f"weight{index}": torch.full((index + 1,), float(index)) for index in range(5)}
    return Replicated.of(State({"round": 7, "model": tensors}, {}), HOLDERS), tensors


def manifest(files: tuple[ManifestFile, ...] = ()) -> Manifest:
    return Manifest(job="gpt", generation="1.0", round=7, mesh=Mesh(data=3), created=datetime.now(UTC), files=files)


def living(of: Replicated) -> Living:
    return Living(manifest(), of)


def content(image: Image) -> bytes:
    memory = torch.empty(image.size, dtype=torch.uint8)
    image.copy_to(memory)
    return memory.numpy().tobytes()


def test_it_makes_the_files_that_each_twin_would_have_made() -> None:
    of, _ = replicated()
    one = living(of)
    file = MemoryFile(os.memfd_create("test"))
    expected = {image.name: content(image) for rank in HOLDERS for image in of.images(rank)}
    assert [listed.path for listed in one.manifest.files] == list(expected)
    for listed in one.manifest.files:
        one.write(listed.path, file)
        assert file.path.read_bytes() == expected[listed.path]
        assert (listed.size, one.has(listed.path)) == (len(expected[listed.path]), True)
    assert not one.has("local-00000.safetensors")


def test_a_change_of_any_tensor_is_noticed() -> None:
    of, tensors = replicated()
    one = living(of)
    assert one.intact
    torch._foreach_add_([tensors["weight4"].detach()], 1)
    assert not one.intact


def test_on_the_host_it_is_as_it_was() -> None:
    of, _ = replicated()
    moved = living(of).on_host()
    assert moved.intact
    assert moved.manifest == living(of).manifest.model_copy(update={"created": moved.manifest.created})


def test_a_tensor_whose_changes_nobody_counts_does_not_count() -> None:
    with torch.inference_mode():
        tensor = torch.zeros(3)
    assert not living(Replicated.of(State({"model": {"weight": tensor}}, {}), HOLDERS)).intact


def test_a_change_that_nobody_counts_differs_from_the_snapshot() -> None:
    of, tensors = replicated()
    files = of.images(1)
    entries = tuple(ManifestFile(rank=1, path=image.name, size=image.size, sha256="") for image in files)
    one = Living(manifest(entries), of)
    slot = Memory([os.memfd_create("test") for _ in range(memory.TOTAL)]).snapshots[0]
    for image, room in zip(files, slot.resize([image.size for image in files]), strict=True):
        image.copy_to(room)
    assert one.is_in(slot)
    for tensor in tensors.values():
        tensor.data.add_(1)
    assert one.intact
    assert not one.is_in(slot)
