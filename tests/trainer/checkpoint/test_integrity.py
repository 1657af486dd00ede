import hashlib
from pathlib import Path

from ringtrain.checkpoint.integrity import why_damaged
from ringtrain.checkpoint.manifest import ManifestFile

DATA = bytes(range(256)) * (17 << 12)
"""17 MiB."""


def listed(data: bytes) -> ManifestFile:
    return ManifestFile(rank=0, path="local-00000", size=len(data), sha256=hashlib.sha256(data).hexdigest())


def test_all_bytes_count(tmp_path: Path) -> None:
    path, beats = tmp_path / "elsewhere", []
    path.write_bytes(DATA)
    assert why_damaged(path, listed(DATA), lambda: beats.append(1)) == ""
    assert len(beats) == 2
    path.write_bytes(DATA[:-1] + b"x")
    assert why_damaged(path, listed(DATA), lambda: None) == "file local-00000 has a wrong checksum"
    path.write_bytes(DATA[:-1])
    assert why_damaged(path, listed(DATA), lambda: None) == (
        f"file local-00000 has {len(DATA) - 1} bytes, expected {len(DATA)}"
    )


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    why = why_damaged(tmp_path / "absent", listed(DATA), lambda: None)
    assert why == "file local-00000 cannot be read: No such file or directory"
    assert why_damaged(tmp_path, listed(DATA), lambda: None) == "file local-00000 cannot be read: Is a directory"
