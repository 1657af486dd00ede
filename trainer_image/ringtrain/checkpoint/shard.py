"""One file of a checkpoint: tensors and a text, in the safetensors format.

The format is laid out here, not by the library, so that a file can be put together in memory that is there already,
tensor by tensor, and so that checksum and heartbeats come along while it is written. The library reads it.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from ringtrain.checkpoint.integrity import why_damaged
from ringtrain.checkpoint.manifest import ManifestFile
from ringtrain.contract.messages import ShardFile

_CHUNK = 16 << 20
DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
}
"""Those that can be saved, by their names in the format."""


class DamagedFile(Exception):
    """A file of a checkpoint is missing, cut off or altered; the message names it."""


class Image:
    """A file that is still to be written, as a header and the tensors behind it."""

    def __init__(self, name: str, tensors: Mapping[str, torch.Tensor], text: str, *, settled: bool = False) -> None:
        """The tensors are the living ones. Raises TypeError for a tensor's dtype that the format lacks."""
        self.name = name
        self.settled = settled
        """The tensors stay as they are until the next optimizer step."""
        # The widest types first, as the library does, so that every tensor lies aligned.
        names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
        self._tensors = [tensors[name] for name in names]
        header: dict[str, Any] = {"__metadata__": {"text": text}}
        offset = 0
        for name, tensor in zip(names, self._tensors, strict=True):
            if tensor.dtype not in DTYPES:
                raise TypeError(
                    f"tensor {name} of {tensor.dtype} cannot be saved: expected one of {', '.join(map(str, DTYPES))}"
                )
            end = offset + tensor.numel() * tensor.element_size()
            header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
            offset = end
        encoded = json.dumps(header).encode()
        encoded += b" " * (-len(encoded) % 8)
        self._header = len(encoded).to_bytes(8, "little") + encoded
        self.size = len(self._header) + offset
        """Bytes."""

    @torch.no_grad()
    def copy_to(self, memory: torch.Tensor) -> None:
        """Fills `memory`, uint8 of `size` bytes on the CPU, aligned to 8. What is on a GPU may arrive later: then
        synchronize with its current stream."""
        memory[: len(self._header)] = torch.frombuffer(bytearray(self._header), dtype=torch.uint8)
        for tensor, room in self._rooms(memory):
            room.view(tensor.dtype).view(tensor.shape).copy_(tensor, non_blocking=True)

    def is_in(self, memory: torch.Tensor) -> bool:
        """Whether the tensors, on the CPU, still have the values that `copy_to` left there."""
        return all(torch.equal(_bits(tensor), room) for tensor, room in self._rooms(memory))

    def _rooms(self, memory: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """(tensor, its bytes in `memory`)"""
        offset = len(self._header)
        for tensor in self._tensors:
            end = offset + tensor.numel() * tensor.element_size()
            yield tensor, memory[offset:end]
            offset = end


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def write(path: Path, content: memoryview, check: Callable[[], None]) -> ShardFile:
    """Writes and flushes the new file `path`. `check` is called at least every 16 MiB; what it raises ends the writing.

    Raises OSError. The file may then be left in part.
    """
    checksum = hashlib.sha256()
    with path.open("xb") as file:
        for start in range(0, len(content), _CHUNK):
            chunk = content[start : start + _CHUNK]
            file.write(chunk)
            checksum.update(chunk)
            check()
        file.flush()
        os.fsync(file.fileno())
    return ShardFile(path=path.name, size=len(content), sha256=checksum.hexdigest())


def read(path: Path, listed: ManifestFile, beat: Callable[[], None]) -> tuple[dict[str, torch.Tensor], str]:
    """The tensors (in CPU memory of their own) and the text, once the file is found to be what the manifest lists.

    Raises DamagedFile.
    """
    with _opened(path, listed, beat) as file:
        tensors = {}
        for name in file.keys():  # noqa: SIM118 - the library's object is no mapping
            # A copy, for the library maps the file, and the file may be deleted while the tensor lives.
            tensors[name] = file.get_tensor(name).clone()
            beat()
        return tensors, (file.metadata() or {}).get("text", "")


def each(
    path: Path, listed: ManifestFile, names: Iterable[str], beat: Callable[[], None]
) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of the tensors called so, once the file is found to be what the manifest lists.

    A tensor lies in the mapped file: copy what is to be kept before the next one. Raises DamagedFile.
    """
    with _opened(path, listed, beat) as file:
        for name in names:
            yield name, file.get_tensor(name)
            beat()


@contextmanager
def _opened(path: Path, listed: ManifestFile, beat: Callable[[], None]) -> Iterator[Any]:
    problem = why_damaged(path, listed, beat)
    if problem:
        raise DamagedFile(problem)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except OSError as error:
        raise DamagedFile(f"file {listed.path} cannot be read: {error.strerror or error}") from error
    except SafetensorError as error:
        raise DamagedFile(f"file {listed.path} is not in the safetensors format: {error}") from error
