"""The agent's end of a rank's socket, for tests that play the agent."""

import socket

from ringtrain.contract.messages import Down, Message, decode, encode

PATIENCE = 120.0


class AgentEnd:
    """Blocking, with a generous time-out."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._connection.settimeout(PATIENCE)
        self._lines = connection.makefile("rb")

    def hear(self) -> Message:
        return decode(self._lines.readline())

    def hear_until(self, kind: type[Message]) -> Message:
        while not isinstance(message := self.hear(), kind):
            pass
        return message

    def pending(self) -> list[Message]:
        """All that has arrived."""
        self._connection.settimeout(0.05)
        messages = []
        try:
            while line := self._lines.readline():
                messages.append(decode(line))
        except TimeoutError:
            # A file on a socket is of no use after a time-out.
            self._lines = self._connection.makefile("rb")
        self._connection.settimeout(PATIENCE)
        return messages

    def tell(self, *messages: Down) -> None:
        self._connection.sendall(b"".join(map(encode, messages)))

    def close(self) -> None:
        self._lines.close()
        self._connection.close()
