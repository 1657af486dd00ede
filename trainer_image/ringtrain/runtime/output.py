"""What ranks print."""

import sys


def say(rank: int, text: str) -> None:
    """Prints a line, once for the whole job."""
    if rank == 0:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
