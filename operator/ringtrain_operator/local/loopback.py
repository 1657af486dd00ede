"""A free block of loopback addresses for one run, so that several runs coexist on a machine."""

import random
import socket

from ringtrain.contract.addresses import AGENT_PORT, COORDINATOR_PORT, STORE_PORT, Addresses

_BLOCKS = range(2, 255)


class NoFreeBlock(Exception):
    """Every block is taken, or the ports are used on all addresses."""


class LoopbackBlock:
    """Holds `127.X` for this process until `close`: a socket on its last address keeps other runs off it."""

    def __init__(self, chooser: random.Random) -> None:
        """Raises NoFreeBlock."""
        self._guard, self.addresses = _claim(chooser)

    def close(self) -> None:
        self._guard.close()


def _claim(chooser: random.Random) -> tuple[socket.socket, Addresses]:
    for block in chooser.sample(_BLOCKS, len(_BLOCKS)):
        guard = socket.socket()
        try:
            guard.bind((f"127.{block}.255.254", COORDINATOR_PORT))
            guard.listen(1)
            addresses = Addresses("loopback", f"127.{block}")
            for port in (AGENT_PORT, COORDINATOR_PORT, STORE_PORT):
                with socket.socket() as trial:
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    trial.bind((addresses.of(0), port))
        except OSError:
            guard.close()
            continue
        return guard, addresses
    raise NoFreeBlock(
        f"no free loopback addresses: a program listens on port {AGENT_PORT}, {COORDINATOR_PORT} or {STORE_PORT} "
        "of all addresses, or 127.0.0.0/8 cannot be bound"
    )
