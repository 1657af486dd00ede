"""The command line's entry point: `ringtrain run`, `validate`, `advise`, and what the trainer adds."""

import os
import signal
from types import FrameType

_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    # Importing the commands takes a moment, in which Ctrl-C must not end in a traceback. A job that runs handles it
    # itself; before, and after, there is nothing to clean up.
    signal.signal(signal.SIGINT, _interrupted)
    from ringtrain_operator.local.commands import app

    app()


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)
