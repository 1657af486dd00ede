"""A real session whose agent's end the test holds."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ringtrain.contract.addresses import Addresses
from ringtrain.contract.messages import Beat, Enter, Message, decode, encode
from ringtrain.runtime.session import Session
from support.environments import replica_environment


@dataclass(frozen=True)
class AgentEnd:
    connection: socket.socket

    def send(self, message: Message) -> None:
        self.connection.sendall(encode(message))

    def received(self) -> list[Message]:
        """All messages so far, but for heartbeats."""
        data = b""
        try:
            while chunk := self.connection.recv(1 << 16, socket.MSG_DONTWAIT):
                data += chunk
        except BlockingIOError:
            pass
        messages = map(decode, data.splitlines())
        return [message for message in messages if not isinstance(message, Beat)]


@contextmanager
def open_session(rank: int = 0, world_size: int = 1, generation: str = "1.1") -> Iterator[tuple[Session, AgentEnd]]:
    """A session that has entered `generation`."""
    own, other = socket.socketpair()
    agent = AgentEnd(other)
    environment = replica_environment(
        job="gpt",
        replica=rank,
        replicas=world_size,
        epoch=1,
        addresses=Addresses.parse("loopback:127.9"),
    )
    with other:
        session = Session(environment, 0, own)
        agent.send(Enter(generation=generation, world_size=world_size, store_host="127.0.0.1", store_port=1))
        session.next_generation()
        agent.received()
        yield session, agent
        session.close()
