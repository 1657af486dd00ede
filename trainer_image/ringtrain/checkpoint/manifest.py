"""The manifest: what a checkpoint consists of. A directory without a valid one is not a checkpoint."""

import hashlib
import json
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError

from ringtrain.contract.mesh import Mesh
from ringtrain.contract.model import ContractModel

FILE_NAME = "manifest.json"
_CHECKSUM = "checksum"


class DamagedManifest(ValueError):
    """The manifest's text is torn, altered or of an unknown format."""


class ManifestFile(ContractModel):
    rank: int
    path: str
    """Relative to the checkpoint's directory."""
    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal. Empty of files in memory, which nothing can damage that leaves the process alive."""


class Manifest(ContractModel):
    format_version: Literal[2] = 2
    job: str
    generation: str
    """EPOCH.ATTEMPT under which it was committed."""
    round: int
    """Rounds finished."""
    mesh: Mesh
    """Of the ranks that wrote it."""
    created: datetime
    files: tuple[ManifestFile, ...]

    def of_rank(self, rank: int) -> tuple[ManifestFile, ...]:
        return tuple(file for file in self.files if file.rank == rank)


def seal(manifest: Manifest) -> bytes:
    """The manifest's file: JSON with a checksum of everything else in it."""
    fields = manifest.model_dump(mode="json", by_alias=True)
    return json.dumps(fields | {_CHECKSUM: _checksum(fields)}, indent=1).encode() + b"\n"


def unseal(data: bytes) -> Manifest:
    """Raises DamagedManifest when `data` is not exactly what `seal` wrote."""
    try:
        fields = json.loads(data)
        checksum = fields.pop(_CHECKSUM)
        manifest = Manifest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise DamagedManifest(f"its manifest is wrong at {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedManifest("its manifest is torn") from error
    if checksum != _checksum(fields):
        raise DamagedManifest("its manifest has a wrong checksum")
    return manifest


def _checksum(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
