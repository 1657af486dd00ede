"""TensorBoard's event files."""

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboardX import SummaryWriter

_FLUSH_SECONDS = 10


class TensorBoard:
    """One event file, from the first round that is logged on: what earlier files hold of that round and later ones,
    from before a failure, is not shown."""

    def __init__(self, directory: Path) -> None:
        """The directory is made with the first round. Nothing of it is read."""
        self._directory = directory
        self._writer: SummaryWriter | None = None

    def __call__(self, values: Mapping[str, float], round: int) -> None:
        """Raises OSError."""
        if self._writer is None:
            # Files are named by the second: two that begin in one would be the same.
            suffix = f".{time.time_ns()}"
            self._writer = SummaryWriter(
                str(self._directory), purge_step=round, flush_secs=_FLUSH_SECONDS, filename_suffix=suffix
            )
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
