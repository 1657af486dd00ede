"""`python -m ringtrain.hold`: keeps a pod's place on its node, and does nothing, until it is asked to end."""

import signal
import sys

_ENDING = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    """Ends with 0."""
    # The first process of a container ignores signals that it has no handler for; one that is waited for arrives.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    signal.sigwait(_ENDING)
    return 0


if __name__ == "__main__":
    sys.exit(main())
