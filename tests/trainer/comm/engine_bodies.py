"""What ranks do in the distributed tests of the engine."""

import hashlib
import os
import signal
import threading
from collections.abc import Sequence
from typing import Any, NoReturn
from unittest.mock import patch

import torch

from ringtrain.comm.codec.build import build_codecs
from ringtrain.comm.engine import Engine, Task
from ringtrain.comm.errors import PeerLost
from ringtrain.comm.fabric import LANES, Inter, Plan
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter
from ringtrain.comm.segments import Cut
from ringtrain.comm.transport.gloo import GlooTransport
from ringtrain.contract.communication import Algorithm, CommunicationConfig
from trainer.comm.ranks import Left, Link

SEGMENTS = 3


def start(group: Group, algorithm: Algorithm, inter: Inter = "gloo") -> Engine:
    return group.start_engine(Plan(topology=group.topology, algorithm=algorithm, intra="gloo", inter=inter), Meter())


def gradient(rank: int, numel: int, number: int = 0) -> torch.Tensor:
    return torch.randn(numel, generator=torch.Generator().manual_seed(1000 * number + rank))


def task(segment: torch.Tensor, config: CommunicationConfig) -> Task:
    return Task(segment=segment, scale=1.0, codec=build_codecs(config).main, residual=None, keep=0.0, ready=None)


def digest(values: torch.Tensor) -> str:
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()


Work = Sequence[tuple[CommunicationConfig, int]]
"""Configurations, and how many values are summed with each."""


def summed(link: Link, rank: int, size: int, processes: int, algorithm: Algorithm, work: Work) -> list[list[str]]:
    group = link.form(rank, size, processes=processes)
    engine = start(group, algorithm)
    digests = [sums(engine, link, group, config, numel) for config, numel in work]
    group.destroy()
    return digests


def sums(engine: Engine, link: Link, group: Group, config: CommunicationConfig, numel: int) -> list[str]:
    """Digests of several sums that run at once."""
    rank, topology = group.rank, group.topology
    padded = Cut(len(topology.machines), topology.processes, build_codecs(config).main.block).padded(numel)
    values = [torch.nn.functional.pad(gradient(rank, numel, number), (0, padded - numel)) for number in range(SEGMENTS)]
    tickets = [engine.submit([task(each, config)]) for each in values]
    for ticket in tickets:
        ticket.wait(link.poll)
    return [digest(each) for each in values]


def lane_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ringtrain-lane")]


def sum_for_ever(link: Link, engine: Engine, rank: int, size: int, config: CommunicationConfig) -> NoReturn:
    """Until a wait raises."""
    # Large enough to be on its way whenever something happens.
    numel = 64 * size * 2000
    while True:
        tickets = [engine.submit([task(gradient(rank, numel), config)]) for _ in range(2 * LANES)]
        for ticket in tickets:
            ticket.wait(link.poll)


def keep_summing(link: Link, rank: int, size: int, processes: int, algorithm: Algorithm) -> Any:
    """Sums until the group breaks or the test says to leave; then forms a smaller one and sums once more."""
    group = link.form(rank, size, processes=processes)
    engine = start(group, algorithm)
    config = CommunicationConfig(codec="zfp")
    group.barrier()
    link.say("ready")
    try:
        sum_for_ever(link, engine, rank, size, config)
    except PeerLost:
        word = None
    except Left as left:
        (word,) = left.args
    group.destroy()
    left_over = lane_threads()
    link.say("left")
    size, place = word or link.hear()
    group = link.form(place, size, "0.1")
    engine = start(group, algorithm)
    values = gradient(place, 64 * size)
    engine.submit([task(values, config)]).wait(link.poll)
    group.destroy()
    return left_over, digest(values)


def survive_all(link: Link, rank: int, size: int, algorithm: Algorithm, phases: int) -> list[list[str]]:
    """Loses a peer in each of so many phases, which nobody tells of; lane threads that are left after each."""
    return [_until_lost(link, rank, size, algorithm, phase) for phase in range(phases)]


def fall_in_phase(link: Link, rank: int, size: int, algorithm: Algorithm, phase: int, fault: signal.Signals) -> None:
    """Ends or stops once one of its lanes has started so many operations between machines, and one more."""
    started: list[GlooTransport] = []
    begin = GlooTransport._started

    def begin_and_fall(transport: GlooTransport, works: list[Any], *tensors: torch.Tensor) -> Any:
        running = begin(transport, works, *tensors)
        started.append(transport)
        if transport is started[0] and started.count(transport) > phase:
            os.kill(os.getpid(), fault)
        return running

    with patch.object(GlooTransport, "_started", begin_and_fall):
        _until_lost(link, rank, size, algorithm, phase)


def _until_lost(link: Link, rank: int, size: int, algorithm: Algorithm, phase: int) -> list[str]:
    group = link.form(rank, size, f"{phase}.0", seconds=4)
    engine = start(group, algorithm)
    config = CommunicationConfig(codec="zfp")
    try:
        sum_for_ever(link, engine, rank, size, config)
    except PeerLost:
        group.destroy()
    link.say("left")
    return lane_threads()
