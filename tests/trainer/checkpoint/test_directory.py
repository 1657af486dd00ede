import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtrain.checkpoint.directory import why_unusable

NOBODY = 65534


@pytest.fixture
def unprivileged(tmp_path: Path) -> Iterator[int]:
    """The user that the test runs as: root may write anywhere."""
    user = os.geteuid()
    if user == 0:
        # The folders that pytest makes are closed to others.
        for folder in (tmp_path, *list(tmp_path.parents)[:2]):
            folder.chmod(0o755)
        os.seteuid(NOBODY)
    yield os.geteuid()
    os.seteuid(user)


def test_it_is_made(tmp_path: Path) -> None:
    assert why_unusable(tmp_path / "a" / "b") == ""
    assert (tmp_path / "a" / "b").is_dir()
    assert why_unusable(tmp_path / "a" / "b") == ""


@pytest.mark.parametrize("below", ["", "b", "b/c"])
def test_a_file_in_its_way_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "a").touch()
    directory = tmp_path / "a" / below
    assert why_unusable(directory) == (
        f"no checkpoint can be kept in {directory}: {tmp_path / 'a'} is no directory: remove it, or name another place "
        "in spec.checkpoint.volume"
    )


@pytest.mark.parametrize("below", ["", "b"])
def test_so_is_a_link_to_nowhere(tmp_path: Path, below: str) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "nowhere")
    assert f"{tmp_path / 'a'} is no directory" in why_unusable(tmp_path / "a" / below)


@pytest.mark.parametrize("below", ["", "b"])
def test_a_directory_of_somebody_else(tmp_path: Path, unprivileged: int, below: str) -> None:
    closed = Path("/") if below else tmp_path
    if not below and unprivileged != NOBODY:
        tmp_path.chmod(0o555)
    why = why_unusable(closed / below)
    assert f"user {unprivileged} may not write to {closed}: let it" in why
    assert "fsGroup" in why


def test_a_place_where_none_can_be_made() -> None:
    why = why_unusable(Path("/proc/no-such/checkpoints"))
    assert "no checkpoint can be kept in /proc/no-such/checkpoints: it cannot be made in /proc (No such file" in why


def test_a_read_only_mount(tmp_path: Path) -> None:
    program = "import sys, pathlib\nfrom ringtrain.checkpoint.directory import why_unusable\n"
    program += "for path in sys.argv[1:]: print(why_unusable(pathlib.Path(path)))"
    mount = f'mount -t tmpfs -o ro none {tmp_path} && exec "$0" -c "$1" {tmp_path} {tmp_path}/new'
    # In a mount namespace of its own nothing is left behind.
    asked = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, sys.executable, program], capture_output=True, text=True, timeout=60
    )
    if "unshare" in asked.stderr or "mount:" in asked.stderr:
        pytest.skip(f"file systems cannot be mounted here: {asked.stderr.strip()}")
    words = f"{tmp_path} is on a read-only file system: mount it for writing"
    assert [words in line for line in asked.stdout.splitlines()] == [True, True], asked.stderr
