"""The generations' store: a torch TCPStore server in a process of its own, so that no rank's death takes it along.

`python -m ringtrain.runtime.store --host HOST --port PORT` prints one line once it accepts clients, and ends when its
standard input does.
"""

import argparse
import logging
import socket
import sys
from datetime import timedelta

from torch._C._distributed_c10d import TCPStore

READY_LINE = "store is ready"
_BACKLOG = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", required=True, help="address to listen on; empty for all")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    listener = listen(arguments.host, arguments.port)
    # Closing is left to the store, which owns the descriptor from here on.
    store = TCPStore(
        arguments.host or "localhost",
        arguments.port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=30),
        master_listen_fd=listener.detach(),
    )
    sys.stdout.write(READY_LINE + "\n")
    sys.stdout.flush()
    while sys.stdin.read(1):
        pass
    logging.getLogger(__name__).info("the coordinator has gone: ending the store at port %d", store.port)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket at `host`, or at every address when it is empty. Raises OSError."""
    if host:
        return socket.create_server((host, port), backlog=_BACKLOG)
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=dual)


if __name__ == "__main__":
    main()
