"""The folder that a local job lives in, from one run to the next.

`status.json` is the job's status as of its last pass, `checkpoints/` stands for the volume, `pods/<pod>/` holds each
pod's log and termination message, `lock` keeps a second runner out.
"""

import fcntl
import json
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from ringtrain_operator.api.spec import GROUP, KIND, VERSION
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan.observed import JobKey

_OWN = ("status.json", "status.json.new", "checkpoints", "pods", "lock")


class BadRunDirectory(Exception):
    """The folder cannot be used; the message says why and what to do."""


class RunDirectoryLost(Exception):
    """The folder, or its lock, was deleted or replaced during the run; the message says so."""


class RunDirectory:
    """An exclusively locked run directory. A context manager: leaving it releases the lock."""

    def __init__(self, root: Path, key: JobKey, lock: int) -> None:
        self.root = root
        self._key = key
        self._lock = lock

    @classmethod
    def open(cls, root: Path, key: JobKey) -> Self:
        """Makes the folder if need be, and locks it. Raises BadRunDirectory."""
        try:
            root.mkdir(parents=True, exist_ok=True)
            root = root.resolve()
            foreign = sorted(path.name for path in root.iterdir() if path.name not in _OWN)
            if foreign:
                raise BadRunDirectory(
                    f"{root} holds {foreign[0]!r}, so it is no run directory of ringtrain: choose another --directory"
                )
            for name in ("checkpoints", "pods"):
                if os.path.lexists(root / name) and not (root / name).is_dir():
                    raise BadRunDirectory(f"{root / name} is no directory: remove it, or choose another --directory")
            lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise BadRunDirectory(f"{root}: cannot be used as run directory: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise BadRunDirectory(
                f"{root} is in use by another ringtrain run: wait for it, or choose another --directory"
            ) from error
        return cls(root, key, lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def has_checkpoints(self) -> bool:
        return self.checkpoints.is_dir() and any(self.checkpoints.iterdir())

    @property
    def log_file(self) -> str:
        """Path of a pod's log, with {pod} in place of its name, for str.format."""
        return f"{self.root}/pods/".replace("{", "{{").replace("}", "}}") + "{pod}/log"

    def pod(self, name: str) -> Path:
        """The folder of one pod, which may be missing."""
        return self.root / "pods" / name

    def check(self) -> None:
        """Raises RunDirectoryLost when the folder is not the one that was locked any more: another run may have it."""
        try:
            there = (self.root / "lock").stat()
        except OSError:
            there = None
        if there is None or not os.path.samestat(there, os.fstat(self._lock)):
            raise RunDirectoryLost(
                f"{self.root} was deleted or replaced while the job ran in it, so the job was ended: run it again, and "
                "leave the directory alone meanwhile"
            )

    def read_status(self) -> TrainingJobStatus | None:
        """The status that the last run left; None for a new folder. Raises BadRunDirectory."""
        path = self.root / "status.json"
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return TrainingJobStatus.model_validate(document["status"])
        except FileNotFoundError:
            if self.has_checkpoints:
                raise BadRunDirectory(
                    f"{self.root} has checkpoints but no status.json, which says how to number new ones: "
                    "start over with --fresh, or choose another --directory"
                ) from None
            return None
        except OSError as error:
            raise BadRunDirectory(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise BadRunDirectory(f"{path} does not hold the status of a job: start over with --fresh") from error

    def write_status(self, status: TrainingJobStatus) -> None:
        """Replaces status.json whole: a crash leaves the old one or the new one. Raises OSError."""
        document = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {"name": self._key.name, "namespace": self._key.namespace},
            "status": json.loads(status.to_json()),
        }
        path, new = self.root / "status.json", self.root / "status.json.new"
        with new.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def clear(self) -> None:
        """Forgets earlier runs: their checkpoints, logs and status. Raises BadRunDirectory."""
        try:
            for path in (self.checkpoints, self.root / "pods"):
                if path.exists():
                    shutil.rmtree(path)
            (self.root / "status.json").unlink(missing_ok=True)
        except OSError as error:
            raise BadRunDirectory(f"{self.root}: cannot be cleared: {error}") from error
