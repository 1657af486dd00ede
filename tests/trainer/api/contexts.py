"""Contexts of ranks that a test started, without agents."""

import socket
from typing import Any

import torch

import ringtrain
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.generation import Generation
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.runtime.session import Session
from support.environments import replica_environment
from trainer.comm.ranks import Link

EXACT = CommunicationConfig(codec="none", verify=True)


def context(
    link: Link,
    rank: int,
    size: int,
    *,
    generation: str = "0.0",
    parallelism: dict[str, Any] | None = None,
    communication: CommunicationConfig = EXACT,
    processes: int = 1,
) -> ringtrain.Context:
    """Nobody hears its heartbeats; the test ends its waits by `Ranks.say`."""
    layout = ParallelismConfig(**(parallelism or {}))
    environment = replica_environment(replica=rank, replicas=size, communication=communication, parallelism=layout)
    # The other end stays open: a session whose agent has gone ends the process.
    own, link.agent = socket.socketpair()  # type: ignore[attr-defined]
    return ringtrain.Context(
        session=Session(environment, 0, own),
        group=link.form(rank, size, generation, processes=processes, mesh=layout.mesh(size, processes)),
        generation=Generation.parse(generation),
        rank=rank,
        world_size=size,
        local_rank=0,
        device=torch.device("cpu"),
        environment=environment,
    )
