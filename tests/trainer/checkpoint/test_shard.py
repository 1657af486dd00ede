import hashlib
import resource
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, load_file

from ringtrain.checkpoint import shard
from ringtrain.checkpoint.manifest import ManifestFile
from trainer.checkpoint.checkpoints import same, write_image

TENSORS = {
    "bf16": torch.tensor([1.5, -0.0, float("inf")], dtype=torch.bfloat16),
    "scalar": torch.tensor(3.25, dtype=torch.float64),
    "flags": torch.tensor([[True], [False]]),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "long": torch.arange(6).reshape(2, 3),
    "empty": torch.zeros(0, 4),
    "strided": torch.arange(12.0).reshape(3, 4).t(),
}


def silent() -> None:
    pass


def write(path: Path, tensors: dict[str, torch.Tensor] = TENSORS, text: str = "{}") -> ManifestFile:
    written = write_image(path, shard.Image(path.name, tensors, text))
    return ManifestFile(rank=0, path=written.path, size=written.size, sha256=written.sha256)


def test_reads_back(tmp_path: Path) -> None:
    written = write(tmp_path / "a.safetensors", text='["dict",["ü",1]]')
    tensors, text = shard.read(tmp_path / "a.safetensors", written, silent)
    assert text == '["dict",["ü",1]]'
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_the_library_reads_it_too(tmp_path: Path) -> None:
    write(tmp_path / "a.safetensors")
    assert torch.equal(load_file(tmp_path / "a.safetensors")["strided"], TENSORS["strided"])


def test_tensors_outlive_their_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    written = write(path)
    tensors, _ = shard.read(path, written, silent)
    path.write_bytes(b"\xff" * written.size)
    assert torch.equal(tensors["long"], TENSORS["long"])


def test_no_tensors(tmp_path: Path) -> None:
    written = write(tmp_path / "a.safetensors", {}, "7")
    assert shard.read(tmp_path / "a.safetensors", written, silent) == ({}, "7")


@given(data=st.data())
def test_any_flipped_bit_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("shard") / "a.safetensors"
    written = write(path)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with pytest.raises(shard.DamagedFile, match=r"a\.safetensors has a wrong checksum"):
        shard.read(path, written, silent)


def test_a_cut_off_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    written = write(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(shard.DamagedFile, match=f"has {written.size - 1} bytes, expected {written.size}"):
        shard.read(path, written, silent)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(shard.DamagedFile, match=r"b\.safetensors cannot be read: No such file"):
        shard.read(tmp_path / "b.safetensors", ManifestFile(rank=0, path="b.safetensors", size=1, sha256="ab"), silent)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"PK\x03\x04 not safetensors")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    listed = ManifestFile(rank=0, path=path.name, size=path.stat().st_size, sha256=sha256)
    with pytest.raises(shard.DamagedFile, match="not in the safetensors format"):
        shard.read(path, listed, silent)


def test_a_volume_that_takes_no_more_is_an_oserror(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(tmp_path / "a", {"big": torch.zeros(1 << 20)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_dtype_that_the_format_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"tensor z of torch\.complex128"):
        write(tmp_path / "a", {"z": torch.zeros(1, dtype=torch.complex128)})


def test_heartbeats_come_while_writing_and_reading(tmp_path: Path) -> None:
    beats: list[int] = []
    path = tmp_path / "a.safetensors"
    image = shard.Image(path.name, {"big": torch.zeros(9 << 20)}, "")
    memory = torch.empty(image.size, dtype=torch.uint8)
    image.copy_to(memory)
    written = shard.write(path, memory.numpy().data, lambda: beats.append(1))
    assert len(beats) == 3  # 36 MiB and a header in pieces of 16
    listed = ManifestFile(rank=0, path=path.name, size=written.size, sha256=written.sha256)
    shard.read(path, listed, lambda: beats.append(2))
    assert beats.count(2) == 4


def test_what_ends_the_writing_is_told(tmp_path: Path) -> None:
    def end() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        shard.write(tmp_path / "a", memoryview(bytes(17 << 20)), end)
    assert (tmp_path / "a").stat().st_size == 16 << 20


@given(
    sizes=st.lists(st.tuples(st.sampled_from(sorted(shard.DTYPES, key=str)), st.integers(0, 9)), max_size=6),
    text=st.text(max_size=20),
)
def test_an_image_is_the_librarys_file(sizes: list[tuple[torch.dtype, int]], text: str) -> None:
    tensors = {f"t{index}": torch.ones(size, dtype=dtype) for index, (dtype, size) in enumerate(sizes)}
    image = shard.Image("a", tensors, text)
    memory = torch.full((image.size,), 7, dtype=torch.uint8)
    image.copy_to(memory)
    read = load(memory.numpy().tobytes())
    assert read.keys() == tensors.keys()
    assert all(same(read[name], tensor) for name, tensor in tensors.items())
    assert image.is_in(memory)
