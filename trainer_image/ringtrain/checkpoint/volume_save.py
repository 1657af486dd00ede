"""A rank's part in one checkpoint on the volume, written while training goes on."""

import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path

from ringtrain.checkpoint import shard
from ringtrain.checkpoint.manifest import FILE_NAME, Manifest
from ringtrain.checkpoint.memory import Slot, name_of
from ringtrain.checkpoint.part import Part
from ringtrain.checkpoint.volume import staging, sync_directory
from ringtrain.contract.messages import ShardFile
from ringtrain.runtime.session import Session


class _GivenUp(Exception):
    pass


class VolumeSave:
    """A volume that refuses costs the checkpoint, never the training."""

    def __init__(self, root: Path, session: Session, manifest: Manifest, part: Part, slot: Slot) -> None:
        """`slot` holds the snapshot of `part` that `manifest` lists; nobody may write it before `run` has ended."""
        self.round = manifest.round
        self.generation = name_of(manifest).generation
        self.bytes = sum(file.size for file in manifest.files)
        self._root = root
        self._session = session
        self._manifest = manifest
        self._part = part
        self._slot = slot
        self._given_up = threading.Event()
        slot.acquire()

    def run(self) -> None:
        """Writes and flushes the files, and reports it, or why it could not be done."""
        try:
            files = self._write()
        except OSError as error:
            self._session.save_failed(self.generation, self.round, f"{self._root}: {error.strerror or error}")
            self.clean()
        except _GivenUp:
            self.clean()
        else:
            self._session.shards_written(self.generation, self.round, files, self._part.layout)
        finally:
            self._slot.release()

    def give_up(self) -> None:
        """From any thread: `run` is to end soon, and to leave nothing."""
        self._given_up.set()

    def clean(self) -> None:
        """Removes what this rank has written. What stays here, a later commit's clean-up removes."""
        directory = self._root / name_of(self._manifest).staging
        # With a manifest in it the commit may still be under way.
        with contextlib.suppress(OSError):
            if not (directory / FILE_NAME).exists():
                for file in self._manifest.files:
                    (directory / file.path).unlink(missing_ok=True)
                directory.rmdir()

    def _write(self) -> Sequence[ShardFile]:
        self._check()
        directory = staging(self._root, self.generation, self.round)
        written = [
            shard.write(directory / file.path, memory.content.numpy().data, self._check)
            for file, memory in zip(self._manifest.files, self._slot.files, strict=False)
        ]
        sync_directory(directory)
        return written

    def _check(self) -> None:
        if self._given_up.is_set():
            raise _GivenUp
