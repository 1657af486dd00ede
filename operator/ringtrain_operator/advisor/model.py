"""What a round of training costs: pure. docs/advisor.md has the formulas in words, and what they leave out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ringtrain.contract.communication import Algorithm
from ringtrain_operator.advisor.formats import NONE, Format
from ringtrain_operator.advisor.layout import Bucket

Limit = Literal["compute", "link", "codec", "latency", "inside"]

LANES = 2
"""All-reduces that run at once: while one encodes, the other sends."""
PART_VALUES = 1 << 18
"""The most values of one message."""
BACKWARD_SHARE = 2 / 3
"""Of compute, in which gradients become ready: a backward pass costs twice its forward pass."""
FRAMING = 1538 / 1448
"""Bytes on an Ethernet link for each byte of a TCP stream, in packets of 1500 bytes."""
LOCAL_LATENCY = 50e-6
"""Seconds of a message between two processes of one machine."""
PLAIN_BYTES = 10e9
"""Bytes of float32 that a thread writes or reads in a second as float32 or bfloat16: it copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Bytes are of 8 bits, G is 10**9."""

    link_bits: float
    """Bits a second between a machine and the others, each way at once. The machine's processes share it."""
    latency: float = 200e-6
    """Seconds of a small message between machines, from one lane's thread to the other's: mostly Gloo's threads."""
    inside_bytes: float = 200e9
    """Bytes a second that each process sends to others of its machine: NVLink, PCIe, or memory."""
    host_bytes: float = math.inf
    """Bytes a second between a GPU and the machine's memory; infinite without GPUs."""
    codec_bytes: float = 1e9
    """Bytes of float32 that a thread encodes in a second by zfp or int4, and decodes."""
    cores: int = 2
    """CPU cores of each process that are free for codecs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A job: what is sent, by whom, over what."""

    buckets: Sequence[Bucket]
    """In the order in which backward passes fill them."""
    machines: int
    processes: int
    """Of each machine."""
    algorithm: Algorithm
    format: Format
    hardware: Hardware
    compute_seconds: float
    """Of a round, the optimizer's step included."""
    accumulation: int = 1
    """Micro-batches; only the last one's backward pass hides communication."""
    overlap: bool = True

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot be."""
        for name in ("machines", "processes", "accumulation"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: must be 1 or more")
        for name in ("link_bits", "inside_bytes", "host_bytes", "codec_bytes", "cores"):
            if not getattr(self.hardware, name) > 0:
                raise ValueError(f"{name} is {getattr(self.hardware, name)}: must be above 0")
        if not (self.compute_seconds >= 0 and self.hardware.latency >= 0):
            raise ValueError("compute_seconds and latency must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One round. Seconds of a kind of work are what it takes by itself; kinds run beside each other."""

    compute_seconds: float
    exposed_seconds: float
    """In which training waits for communication and does nothing else."""
    sent_bytes: int
    """By each machine to others, as the trainer counts them: without what the network adds."""
    link_seconds: float
    """In which the machine's link is busy."""
    codec_seconds: float
    """Of one process, on one thread."""
    latency_seconds: float
    """Of all hops of all segments, one after another."""
    inside_seconds: float
    """Inside the machine, and between GPU and memory."""
    limit: Limit
    """What a faster round needs more of."""
    error: float
    """Norm of what codecs lose / norm of the summed gradients, where machines' gradients are independent."""

    @property
    def round_seconds(self) -> float:
        return self.compute_seconds + self.exposed_seconds

    @property
    def exposed_share(self) -> float:
        """Of the round, 0..1."""
        return self.exposed_seconds / self.round_seconds if self.round_seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """Of one bucket."""

    sent_bytes: int
    link: float
    codec: float
    latency: float
    inside: float
    steady: float
    """Seconds, among many buckets."""
    alone: float
    """Seconds, when no other bucket is there to work on meanwhile."""


def predict(setting: Setting) -> Prediction:
    costs = [_cost(bucket, setting) for bucket in setting.buckets]
    exposed = max(_behind_backward(costs, setting), _totals(setting))
    sums = {kind: sum(getattr(cost, kind) for cost in costs) for kind in ("link", "codec", "latency", "inside")}
    busy: dict[Limit, float] = {
        "link": sums["link"],
        "codec": sums["codec"] / _threads(setting),
        "latency": sums["latency"] / LANES,
        "inside": sums["inside"],
    }
    return Prediction(
        compute_seconds=setting.compute_seconds,
        exposed_seconds=exposed,
        sent_bytes=sum(cost.sent_bytes for cost in costs),
        link_seconds=sums["link"],
        codec_seconds=sums["codec"],
        latency_seconds=sums["latency"],
        inside_seconds=sums["inside"],
        limit="compute" if exposed < setting.compute_seconds / 100 else max(busy, key=lambda kind: busy[kind]),
        error=noise(setting.format, setting.algorithm, setting.machines),
    )


def noise(written: Format, algorithm: Algorithm, machines: int) -> float:
    """See `Prediction.error`.

    Of M independent gradients of variance 1, the sum's is M. In a ring the sum of h of them is encoded for h = 1..M,
    which adds error**2 x M (M + 1) / 2; directly, M - 1 of them and then their sum, which adds error**2 x (2 M - 1).
    """
    if machines == 1:
        return 0.0
    growth = (machines + 1) / 2 if algorithm == "ring" else 2 - 1 / machines
    return written.error * math.sqrt(growth)


def _threads(setting: Setting) -> int:
    return min(LANES, setting.hardware.cores)


def _cost(bucket: Bucket, setting: Setting) -> _Cost:
    hardware, machines, processes = setting.hardware, setting.machines, setting.processes
    written = NONE if bucket.exact else setting.format
    # As the trainer cuts: into segments of which every process sends a part to every machine.
    units = -(-bucket.values // (machines * processes * written.block))
    segments = -(-units * written.block // PART_VALUES) or 1
    short, longer = divmod(units, segments)
    shard = 4 * units * written.block * machines
    inside = 2 * (processes - 1) * shard / hardware.inside_bytes + 2 * shard / hardware.host_bytes
    if machines == 1:
        return _Cost(sent_bytes=0, link=0, codec=0, latency=0, inside=inside, steady=inside, alone=inside)
    message_bytes = longer * written.message_bytes((short + 1) * written.block)
    message_bytes += (segments - longer) * written.message_bytes(short * written.block)
    sent_bytes = processes * 2 * (machines - 1) * message_bytes
    link = 8 * FRAMING * sent_bytes / hardware.link_bits
    speed = hardware.codec_bytes if written.lossy else PLAIN_BYTES
    received = (machines - 1) / machines * shard / speed
    codec = 2 * shard / speed + received
    if setting.algorithm == "ring":
        hops = 2 * (machines - 1)
        # In the second half, what has arrived is decoded while the next part comes.
        hidden = min(received, link / 2)
    else:
        # All is sent at once; then Gloo gathers along a ring.
        hops = machines
        hidden = 0.0
    latency = segments * hops * hardware.latency
    serial = inside + codec + link + latency - hidden
    lanes, threads = min(LANES, segments), min(_threads(setting), segments)
    return _Cost(
        sent_bytes=sent_bytes,
        link=link,
        codec=codec,
        latency=latency,
        inside=inside,
        steady=max(link, codec / _threads(setting), inside, serial / LANES),
        alone=max(link, codec / threads, inside, serial / lanes),
    )


def _behind_backward(costs: Sequence[_Cost], setting: Setting) -> float:
    """Seconds from the end of the backward pass to the end of the last bucket."""
    backward = BACKWARD_SHARE * setting.compute_seconds / setting.accumulation
    values = sum(bucket.values for bucket in setting.buckets)
    passed, ended = 0, 0.0
    for bucket, cost in zip(setting.buckets, costs, strict=True):
        passed += bucket.values
        ready = backward * passed / values if setting.overlap else backward
        ended = max(ended + cost.steady, ready + cost.alone)
    return max(0.0, ended - backward)


def _totals(setting: Setting) -> float:
    """Seconds of the sum of two numbers, loss and weight, that ends every round: Gloo's ring over all ranks."""
    machines, ranks = setting.machines, setting.machines * setting.processes
    if ranks == 1:
        return 0.0
    between = machines if machines > 1 else 0
    return 2 * (ranks - 1) / ranks * (between * setting.hardware.latency + (ranks - between) * LOCAL_LATENCY)
