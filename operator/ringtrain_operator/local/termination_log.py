"""Where a pod writes its last words."""

import os
from pathlib import Path

_LIMIT = 4096
"""Bytes of a termination message that Kubernetes keeps."""


class TerminationLog:
    """A file in memory: why a pod ended must be known on a full disk too."""

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("termination-log", os.MFD_CLOEXEC)

    @property
    def path(self) -> Path:
        """By which every process of this user can open it, as long as it is not closed."""
        return Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")

    def read(self) -> str:
        return os.pread(self._descriptor, _LIMIT, 0).decode(errors="replace").strip()

    def close(self) -> None:
        os.close(self._descriptor)
