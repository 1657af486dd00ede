"""Where the replicas of a job are found: DNS names in a cluster, loopback addresses on one machine."""

import re
from dataclasses import dataclass
from typing import Literal, Self

from ringtrain.contract.generation import Generation

AGENT_PORT = 8470
"""HTTP of every agent: /livez, /readyz, /status, /metrics."""
COORDINATOR_PORT = 8471
"""The coordinator's, at replica 0."""
STORE_PORT = 8472
"""The generations' store (torch TCPStore), at replica 0."""

_MASTER_PORTS = 10000
_BLOCKS = 256
_PORTS_PER_BLOCK = 75
"""All below 29 300: where systems begin to choose ports for connections, there may be one of these."""
_ATTEMPTS_PER_EPOCH = 31
"""Few jobs see more; both numbers share no divisor."""
_PER_BLOCK = 250
_LOOPBACK = re.compile(r"127\.(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])")


@dataclass(frozen=True, slots=True)
class Addresses:
    """The table of a job's addresses; `base` is `<job>.<service>.<namespace>.svc` (dns) or `127.x` (loopback)."""

    kind: Literal["dns", "loopback"]
    base: str

    def of(self, replica: int) -> str:
        """The host name or address of `replica`."""
        if self.kind == "dns":
            job, domain = self.base.split(".", 1)
            return f"{job}-{replica}.{domain}"
        return f"{self.base}.{replica // _PER_BLOCK}.{replica % _PER_BLOCK + 1}"

    def master_port(self, generation: Generation) -> int:
        """MASTER_PORT of user commands that rendezvous by themselves in `generation`: never the one of the generation
        before, of which something may be left. It differs between jobs of one machine, since torch listens there on
        every address."""
        block = 0 if self.kind == "dns" else int(self.base.split(".")[1])
        turn = (generation.epoch * _ATTEMPTS_PER_EPOCH + generation.attempt) % _PORTS_PER_BLOCK
        return _MASTER_PORTS + turn * _BLOCKS + block

    def __str__(self) -> str:
        return f"{self.kind}:{self.base}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError when `text` is not `dns:BASE` or `loopback:BASE`."""
        kind, _, base = text.partition(":")
        if kind == "dns" and base.count(".") >= 1:
            return cls("dns", base)
        if kind == "loopback" and _LOOPBACK.fullmatch(base):
            return cls("loopback", base)
        raise ValueError(f"{text!r} is not a table of addresses: expected dns:JOB.SERVICE... or loopback:127.X")
