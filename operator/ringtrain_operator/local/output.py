"""What a run prints: it must neither fail nor stop the training when it cannot be written."""

import io
import os
from typing import TextIO


class Output(io.RawIOBase):
    """An open file descriptor to which writing never fails: what it does not take is lost."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.reader_gone = False
        """Nobody reads the pipe any more: it is known once something was written."""

    def text(self) -> TextIO:
        """A text stream over it, in UTF-8."""
        return io.TextIOWrapper(io.BufferedWriter(self), encoding="utf-8", errors="replace", write_through=True)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: object, /) -> int:
        content = bytes(data)  # type: ignore[call-overload]
        try:
            return os.write(self._descriptor, content)
        except BrokenPipeError:
            self.reader_gone = True
        except OSError:
            # A full disk, a terminal that is gone.
            pass
        return len(content)
