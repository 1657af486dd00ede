"""Members that are threads of one process: for simulations, and for tests of what runs over a transport."""

import queue
import threading
from collections.abc import Callable

from torch import Tensor

from ringtrain.comm.errors import Abandoned

_LONGEST_WAIT = 0.05


class _Link:
    """From one member to another."""

    def __init__(self) -> None:
        self.messages: queue.SimpleQueue[Tensor] = queue.SimpleQueue()


class _Received:
    def __init__(self, receive: Callable[[], None]) -> None:
        self._receive = receive

    def wait(self) -> None:
        self._receive()


class MemoryTransport:
    def __init__(self, rank: int, links: list[list[_Link]], abandoned: threading.Event) -> None:
        self.rank = rank
        self.size = len(links)
        self._links = links
        self._abandoned = abandoned

    def shift(self, send: Tensor, receive: Tensor) -> _Received:
        self._send((self.rank + 1) % self.size, send)
        return _Received(lambda: self._receive((self.rank - 1) % self.size, receive))

    def all_to_all(self, send: Tensor, receive: Tensor) -> _Received:
        return self._exchange(list(send.view(self.size, -1)), receive)

    def all_gather(self, send: Tensor, receive: Tensor) -> _Received:
        return self._exchange([send] * self.size, receive)

    def abandon(self) -> None:
        self._abandoned.set()

    def _exchange(self, parts: list[Tensor], receive: Tensor) -> _Received:
        for peer, part in enumerate(parts):
            self._send(peer, part)
        rows = receive.view(self.size, -1)

        def finish() -> None:
            for peer in range(self.size):
                self._receive(peer, rows[peer])

        return _Received(finish)

    def _send(self, peer: int, data: Tensor) -> None:
        self._links[self.rank][peer].messages.put(data.clone())

    def _receive(self, peer: int, data: Tensor) -> None:
        while not self._abandoned.is_set():
            try:
                data.copy_(self._links[peer][self.rank].messages.get(timeout=_LONGEST_WAIT))
            except queue.Empty:
                continue
            return
        raise Abandoned


def memory_transports(size: int) -> list[MemoryTransport]:
    """One for each of `size` members; abandoning one abandons all."""
    links = [[_Link() for _ in range(size)] for _ in range(size)]
    abandoned = threading.Event()
    return [MemoryTransport(rank, links, abandoned) for rank in range(size)]
