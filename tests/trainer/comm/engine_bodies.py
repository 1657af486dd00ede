"""What ranks do in the distributed tests of the engine."""

import hashlib
import threading
from typing import Any, NoReturn

import torch

from ringtrain.comm.codec.build import build_codecs
from ringtrain.comm.engine import Engine, Task
from ringtrain.comm.errors import PeerLost
from ringtrain.comm.fabric import LANES, Inter, Plan
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter
from ringtrain.comm.segments import Cut
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


def summed(
    link: Link, rank: int, size: int, processes: int, algorithm: Algorithm, config: CommunicationConfig, numel: int
) -> list[str]:
    group = link.form(rank, size, processes=processes)
    digests = sums(start(group, algorithm), link, group, config, numel)
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


def broken_codec(link: Link, rank: int, size: int) -> list[str]:
    """What the training thread is told when something in the engine is at fault, and again afterwards."""
    group = link.form(rank, size)
    engine = start(group, "ring")
    told = []
    for _ in range(2):
        try:
            # Not a multiple of anything: the lane cannot cut it.
            engine.submit([task(torch.zeros(7), CommunicationConfig(codec="zfp"))]).wait(link.poll)
        except RuntimeError as error:
            told.append(f"{type(error).__name__}: {error}")
    group.destroy()
    return told
