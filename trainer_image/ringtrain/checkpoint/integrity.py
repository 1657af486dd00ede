"""Whether a file is what the manifest says."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from ringtrain.checkpoint.manifest import ManifestFile

_CHUNK = 16 << 20


def why_damaged(path: Path, file: ManifestFile, beat: Callable[[], None]) -> str:
    """What is wrong with the file at `path`; empty when all its bytes are right. `beat` is called every 16 MiB."""
    checksum = hashlib.sha256()
    try:
        with path.open("rb") as opened:
            actual = os.fstat(opened.fileno()).st_size
            if actual != file.size:
                return f"file {file.path} has {actual} bytes, expected {file.size}"
            while file.sha256 and (chunk := opened.read(_CHUNK)):
                checksum.update(chunk)
                beat()
    except OSError as error:
        return f"file {file.path} cannot be read: {error.strerror or error}"
    return "" if file.sha256 in ("", checksum.hexdigest()) else f"file {file.path} has a wrong checksum"
