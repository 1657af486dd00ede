"""One format of log lines for agent and coordinator; ranks print what they like beside it."""

import logging
import sys


def log_to_stderr(process: str) -> None:
    """`process` names the writer in every line."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format=f"%(asctime)s {process} %(levelname)s %(message)s"
    )
