"""A volume that fills up, or turns read-only, while a job runs: a tmpfs that only the job's processes see."""

import os
import subprocess
from pathlib import Path

import pytest

from support.loopback_job import PATIENCE

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")


class SmallVolume:
    """Mounted on `path` in a mount namespace of its own, which lasts as long as a process in it: `command` starts any
    other there."""

    def __init__(self, path: Path, size: str) -> None:
        path.mkdir()
        self._path = path
        script = f"mount -t tmpfs -o size={size} none {path} && echo mounted && exec cat"
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"mounted\n"

    @property
    def command(self) -> tuple[str, ...]:
        """What stands before another command."""
        return ("nsenter", "--mount", f"--target={self._keeper.pid}", "--wd=" + str(Path.cwd()))

    @property
    def inside(self) -> Path:
        """The mounted volume, as seen from here."""
        return Path(f"/proc/{self._keeper.pid}/root") / self._path.relative_to("/")

    def remount(self, options: str) -> None:
        subprocess.run(
            [*self.command, "mount", "-o", f"remount,{options}", str(self._path)], check=True, timeout=PATIENCE
        )

    def close(self) -> None:
        """The mount goes with the last process in its namespace."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.stdout.close()
        self._keeper.wait(PATIENCE)
