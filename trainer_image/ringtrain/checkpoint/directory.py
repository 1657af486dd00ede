"""Whether a checkpoint directory can be used at all: a job that could never keep a checkpoint must not begin."""

import errno
import os
from pathlib import Path

_NEVER = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
"""What no later attempt will find otherwise; a full disk or a server that does not answer may."""


def why_unusable(directory: Path) -> str:
    """Why `directory` can hold no checkpoints, and what to do; empty when it can. Makes it if need be.

    Empty too for what may pass: that costs single checkpoints, which is told when they are saved.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
            return _said(directory, directory, errno.EROFS if read_only else errno.EACCES)
    except OSError as error:
        return _said(directory, _nearest(directory), error.errno) if error.errno in _NEVER else ""
    return ""


def _nearest(directory: Path) -> Path:
    """The deepest part of the path that is there: what the rest fails at."""
    return next(part for part in (directory, *directory.parents) if os.path.lexists(part))


def _said(directory: Path, culprit: Path, code: int | None) -> str:
    another = "name another place in spec.checkpoint.volume"
    if not culprit.is_dir():
        problem = f"{culprit} is no directory: remove it, or {another}"
    elif code == errno.EROFS:
        problem = f"{culprit} is on a read-only file system: mount it for writing, or {another}"
    elif code in (errno.EACCES, errno.EPERM):
        problem = (
            f"user {os.geteuid()} may not write to {culprit}: let it (on a cluster by "
            f"spec.template.spec.securityContext.fsGroup), or {another}"
        )
    else:
        problem = f"it cannot be made in {culprit} ({os.strerror(code or 0)}): make it, or {another}"
    return f"no checkpoint can be kept in {directory}: {problem}"
