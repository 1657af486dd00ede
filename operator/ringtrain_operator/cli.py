"""The command line's entry points: `ringtrain`, `kubectl ringtrain`, and what completes the latter."""

import contextlib
import os
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType

_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    # Importing the commands takes a moment, in which Ctrl-C must not end in a traceback. A job that runs handles it
    # itself; before, and after, there is nothing to clean up.
    signal.signal(signal.SIGINT, _interrupted)
    from ringtrain_operator.commands.app import app

    # kubectl starts its plugin kubectl-ringtrain.
    app(prog_name=Path(sys.argv[0]).name.replace("kubectl-", "kubectl "))


def complete() -> None:
    """`kubectl_complete-ringtrain WORD...`, which kubectl starts to complete its plugin's last word, begun or empty.

    Prints a candidate a line, and at the end what the shell is to do; 0: offer files where there is none.
    """
    from ringtrain_operator.commands.app import app

    words = ["ringtrain", *sys.argv[1:]]
    os.environ |= {
        "_RINGTRAIN_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    with contextlib.suppress(SystemExit):
        app(prog_name="ringtrain")
    sys.stdout.write(":0\n")


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)
