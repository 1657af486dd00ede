"""One file of a checkpoint: tensors and a text, in the safetensors format.

The format is written here, not by the library, so that a save needs no second copy of the state in memory, and so
that checksum and heartbeats come along while it is written. The library reads it.
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
}
"""Those that can be saved, by their names in the format."""


class DamagedFile(Exception):
    """A file of a checkpoint is missing, cut off or altered; the message names it."""


def write(path: Path, tensors: Mapping[str, torch.Tensor], text: str, beat: Callable[[], None]) -> ShardFile:
    """Writes and flushes the new file `path`. `beat` is called at least every 16 MiB.

    Raises OSError (the file may be left in part), TypeError for a tensor's dtype that the format lacks.
    """
    checksum = hashlib.sha256()
    size = 0
    with path.open("xb") as file:
        for chunk in _chunks(tensors, text):
            file.write(chunk)
            checksum.update(chunk)
            size += len(chunk)
            beat()
        file.flush()
        os.fsync(file.fileno())
    return ShardFile(path=path.name, size=size, sha256=checksum.hexdigest())


def read(path: Path, size: int, sha256: str, beat: Callable[[], None]) -> tuple[dict[str, torch.Tensor], str]:
    """The tensors (in CPU memory of their own) and the text, once size and checksum are found right.

    Raises DamagedFile.
    """
    with _opened(path, size, sha256, beat) as file:
        tensors = {}
        for name in file.keys():  # noqa: SIM118 - the library's object is no mapping
            # A copy, for the library maps the file, and the file may be deleted while the tensor lives.
            tensors[name] = file.get_tensor(name).clone()
            beat()
        return tensors, (file.metadata() or {}).get("text", "")


def each(
    path: Path, size: int, sha256: str, names: Iterable[str], beat: Callable[[], None]
) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of the tensors called so, once size and checksum are found right.

    A tensor lies in the mapped file: copy what is to be kept before the next one. Raises DamagedFile.
    """
    with _opened(path, size, sha256, beat) as file:
        for name in names:
            yield name, file.get_tensor(name)
            beat()


@contextmanager
def _opened(path: Path, size: int, sha256: str, beat: Callable[[], None]) -> Iterator[Any]:
    try:
        _verify(path, size, sha256, beat)
        with safe_open(path, framework="pt") as file:
            yield file
    except OSError as error:
        raise DamagedFile(f"file {path.name} cannot be read: {error.strerror or error}") from error
    except SafetensorError as error:
        raise DamagedFile(f"file {path.name} is not in the safetensors format: {error}") from error


def _verify(path: Path, size: int, sha256: str, beat: Callable[[], None]) -> None:
    checksum = hashlib.sha256()
    with path.open("rb") as file:
        actual = os.fstat(file.fileno()).st_size
        if actual != size:
            raise DamagedFile(f"file {path.name} has {actual} bytes, expected {size}")
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
            beat()
    if checksum.hexdigest() != sha256:
        raise DamagedFile(f"file {path.name} has a wrong checksum")


def _chunks(tensors: Mapping[str, torch.Tensor], text: str) -> Iterator[memoryview]:
    # The widest types first, as the library does, so that every tensor lies aligned.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": {"text": text}}
    offset = 0
    for name in names:
        tensor = tensors[name]
        if tensor.dtype not in DTYPES:
            raise TypeError(
                f"tensor {name} of {tensor.dtype} cannot be saved: expected one of {', '.join(map(str, DTYPES))}"
            )
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    yield memoryview(len(encoded).to_bytes(8, "little") + encoded)
    for name in names:
        data = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        for start in range(0, len(data), _CHUNK):
            yield data[start : start + _CHUNK]
