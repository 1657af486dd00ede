"""What ranks do in the distributed tests of MPI."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import torch
from torch._C._distributed_c10d import HashStore

from ringtrain.comm.errors import Abandoned, PeerLost
from ringtrain.comm.transport import mpi_world
from ringtrain.contract.communication import Algorithm, CommunicationConfig
from ringtrain.runtime.errors import BadConfiguration, PeersUnreachable
from trainer.comm.engine_bodies import lane_threads, start, sum_for_ever, sums
from trainer.comm.ranks import Left, Link

_LISTENING = "0A"


def summed(
    link: Link, rank: int, size: int, processes: int, algorithm: Algorithm,
    work: Sequence[tuple[CommunicationConfig, int]],
) -> tuple[bool, list[list[str]], set[str]]:  # fmt: skip
    """Digests of sums, one list for each config and length; and where this process listens for connections."""
    group = link.form(rank, size, processes=processes)
    before = listening()
    engine = start(group, algorithm, "mpi")
    digests = [sums(engine, link, group, config, numel) for config, numel in work]
    new = listening() - before
    group.destroy()
    return mpi_world.entered(), digests, {address for address, _ in new}


def listening() -> set[tuple[str, int]]:
    """IPv4 addresses and ports."""
    mine = {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    rows = (line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:])
    found = (row[1].split(":") for row in rows if row[3] == _LISTENING and f"socket:[{row[9]}]" in mine)
    return {(socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)) for address, port in found}


def lose_one(
    link: Link, rank: int, size: int, processes: int, algorithm: Algorithm, lost: int, phase: str
) -> tuple[list[str], list[str]]:
    """Goes on until the group breaks or the test says to leave; then tries to meet the others once more."""
    group = link.form(rank, size, processes=processes)
    group.barrier()
    ready: list[bool] = []

    def poll() -> None:
        """Says that it is ready once it is in the phase."""
        if phase == "forming" and not ready and mpi_world.entered():
            ready.append(True)
            link.say("ready")
        link.poll()

    group.poll = poll
    try:
        if phase == "forming" and rank == lost:
            link.say("ready")
            link.hear()
        engine = start(group, algorithm, "mpi")
        if phase == "summing":
            link.say("ready")
        sum_for_ever(link, engine, rank, size, CommunicationConfig(codec="bf16"))
    except PeerLost:
        word = None
    except Left as left:
        (word,) = left.args
    group.destroy()
    left_over = lane_threads()
    link.say("left")
    size, place = word or link.hear()
    group = link.form(place, size, "0.1")
    # The first to end would break the connecting of the others.
    group.barrier()
    try:
        start(group, algorithm, "mpi")
    except PeersUnreachable as error:
        return left_over, [str(error)]
    return left_over, []


def misuse(link: Link, rank: int, size: int) -> list[str]:
    """What waiting raises for a message that is longer than expected, and for others once it was abandoned."""
    transport = mpi_world.enter(link, HashStore(), rank, size, "127.0.0.1", link.poll).connect("alone", [0], link.poll)
    send, receive = torch.arange(16, dtype=torch.uint8), torch.zeros(16, dtype=torch.uint8)
    transport.shift(send, receive).wait()
    assert torch.equal(send, receive)
    raised = []
    for into in (receive[:8], receive, receive):
        try:
            transport.shift(send, into).wait()
        except (PeerLost, Abandoned) as error:
            raised.append(type(error).__name__)
        transport.abandon()
    return raised


def refused(link: Link, rank: int, size: int, variables: dict[str, str], first: str) -> str:
    """Why MPI cannot be had when the process has `variables` and has run the program `first`."""
    os.environ.update(variables)
    exec(first)
    group = link.form(rank, size)
    try:
        start(group, "ring", "mpi")
    except BadConfiguration as error:
        return str(error)
    return ""
