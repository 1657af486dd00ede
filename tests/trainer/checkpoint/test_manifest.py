import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.checkpoint.manifest import DamagedManifest, Manifest, ManifestFile, seal, unseal
from ringtrain.contract.mesh import Mesh

MANIFEST = Manifest(
    job="gpt",
    generation="1.0",
    round=20,
    mesh=Mesh(data=2, pipeline=3),
    created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    files=(
        ManifestFile(rank=0, path="local-00000.safetensors", size=10, sha256="ab" * 32),
        ManifestFile(rank=1, path="local-00001.safetensors", size=11, sha256="cd" * 32),
    ),
)
SEALED = seal(MANIFEST)


def test_reads_back() -> None:
    assert unseal(SEALED) == MANIFEST


def test_files_of_a_rank() -> None:
    assert [file.path for file in MANIFEST.of_rank(1)] == ["local-00001.safetensors"]


@given(st.integers(0, len(SEALED) - 3))
def test_a_torn_manifest_is_refused(length: int) -> None:
    with pytest.raises(DamagedManifest, match="torn"):
        unseal(SEALED[:length])


@given(st.integers(0, len(SEALED) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_changes_nothing(position: int, bit: int) -> None:
    flipped = bytearray(SEALED)
    flipped[position] ^= 1 << bit
    try:
        assert unseal(bytes(flipped)) == MANIFEST
    except DamagedManifest:
        return
    # Only white space between JSON tokens may differ without notice.
    assert json.loads(flipped) == json.loads(SEALED)


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{}", b'{"checksum": 1}', b"\xff\xfe", b'"text"'])
def test_other_json_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedManifest):
        unseal(data)


@pytest.mark.parametrize("version", [1, 3])
def test_another_format_is_refused_by_name(version: int) -> None:
    fields = json.loads(SEALED) | {"formatVersion": version}
    with pytest.raises(DamagedManifest, match="formatVersion"):
        unseal(json.dumps(fields).encode())
