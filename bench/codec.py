"""How fast are the codecs on this machine's cores? Against zfpy, torch's cast to bfloat16, int4, and copying memory.

    python bench/codec.py --quick
    python bench/codec.py --threads 1,2,4 --json results.json
    python bench/codec.py --device cuda

All take turns on the same values, again and again, so that what else the machine does hits all of them, and the fastest
turn of each counts. docs/codec.md says what the columns mean.
"""

import argparse
import functools
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.int4 import Int4
from ringtrain.comm.codec.zfp import Zfp, warm
from ringtrain.comm.codec.zfp_reference import ReferenceZfp

_RATES = (3, 4, 5, 6, 8, 16)
_QUICK_RATES = (4,)
_SEEDS = 4
"""Different values in turn: a processor would learn by heart where one tensor's bits make its branches go."""

Work = Callable[[Tensor], object]


@dataclass(frozen=True, slots=True)
class Place:
    """Where values are encoded."""

    device: str
    values: int
    """Of a tensor: a GPU needs many until starting the work counts no more."""
    seconds: Callable[[Callable[[], object]], float]
    """How long work takes."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    operation: str
    gigabytes_a_second: float
    """Of float32 values."""
    to_zfpy: float | None
    """That zfpy takes so many times as long; None without a zfpy of the rate."""
    of_copy: float
    """Share of the speed at which memory is copied, counting all bytes that must be read and written."""


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    operation: str
    work: Work
    moved: float
    """Bytes read and written, for each value."""
    reference: str | None = None


def seconds_by_clock(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def place_of(device: str) -> Place:
    if device == "cpu":
        return Place(device, 1 << 18, seconds_by_clock)
    from codec_gpu import seconds

    return Place(device, 1 << 26, seconds)


def codec_tasks(codec: Codec, name: str, reference: str | None, place: Place) -> list[Task]:
    data = torch.zeros(codec.encoded_bytes(place.values), dtype=torch.uint8, device=place.device)
    target, residual = (torch.zeros(place.values, device=place.device) for _ in range(2))
    size = len(data) / place.values

    def encode(values: Tensor) -> None:
        codec.encode(values, data)

    def encode_with_residual(values: Tensor) -> None:
        codec.encode_with_residual(values, residual, 1.0, data)

    def decode(_: Tensor) -> None:
        codec.decode(data, target)

    def decode_add(_: Tensor) -> None:
        codec.decode_add(data, target)

    # In this order, so that what is decoded was encoded in the same turn.
    return [
        Task(name, "encode", encode, 4 + size, reference),
        Task(name, "decode", decode, 4 + size, reference),
        Task(name, "encode with residual", encode_with_residual, 12 + size, reference),
        Task(name, "decode and add", decode_add, 8 + size, reference),
    ]


def copy_tasks(place: Place) -> list[Task]:
    wide = torch.zeros(place.values, device=place.device)
    narrow = wide.bfloat16()
    return [
        Task("copy", "copy", wide.copy_, 8),
        Task("torch bf16", "encode", narrow.copy_, 6),
        Task("torch bf16", "decode", lambda _: wide.copy_(narrow), 6),
    ]


def gpu_tasks(rates: tuple[int, ...], place: Place) -> list[Task]:
    from codec_gpu import QueuedZfp

    found = copy_tasks(place)
    for rate in rates:
        codec = QueuedZfp(rate, place.device)
        found += codec_tasks(codec, codec.name, None, place)
    return found


def cpu_tasks(rates: tuple[int, ...], threads: list[int], place: Place) -> list[Task]:
    found = copy_tasks(place)
    found += codec_tasks(Int4(128, rotate=False), "int4-128", None, place)
    for rate in rates:
        reference = f"zfpy-{rate}"
        found += codec_tasks(ReferenceZfp(rate), reference, reference, place)
        for count in threads:
            codec = Zfp(rate, midpoint=True, threads=count)
            found += codec_tasks(codec, f"{codec.name}, {count} thread{'s' if count > 1 else ''}", reference, place)
    return found


def measure(found: list[Task], seconds: float, place: Place) -> list[Row]:
    generators = [torch.Generator(place.device).manual_seed(seed) for seed in range(_SEEDS)]
    inputs = [torch.randn(place.values, generator=one, device=place.device) for one in generators]
    fastest = [float("inf")] * len(found)
    end = time.perf_counter() + seconds
    turn = 0
    while turn < 2 or time.perf_counter() < end:  # The first turn is for the caches.
        for index, task in enumerate(found):
            taken = place.seconds(functools.partial(task.work, inputs[turn % _SEEDS]))
            fastest[index] = min(fastest[index], taken)
        turn += 1
    by_task = {(task.name, task.operation): taken for task, taken in zip(found, fastest, strict=True)}
    copied = 8 * place.values / by_task["copy", "copy"]
    rows = []
    for task, taken in zip(found, fastest, strict=True):
        reference = by_task.get((task.reference or "", task.operation))
        ratio = reference / taken if reference else None
        share = task.moved * place.values / taken / copied
        rows.append(Row(task.name, task.operation, 4 * place.values / taken / 1e9, ratio, share))
    return rows


def table(rows: list[Row]) -> str:
    lines = ["| codec | operation | GB/s | to zfpy | of copy |", "|---|---|---|---|---|"]
    for row in rows:
        ratio = f"{row.to_zfpy:.2f}" if row.to_zfpy else ""
        lines.append(f"| {row.name} | {row.operation} | {row.gigabytes_a_second:.2f} | {ratio} | {row.of_copy:.0%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one rate, and half a minute")
    parser.add_argument(
        "--threads", default="1,2", help="comma-separated counts of zfp's threads (default: %(default)s)"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where (default: %(default)s)")
    parser.add_argument("--seconds", type=float, help="how long to measure (default: 15 with --quick, else 120)")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    threads = [int(count) for count in arguments.threads.split(",")]
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU here")
    torch.set_num_threads(1)
    place = place_of(arguments.device)
    rates = _QUICK_RATES if arguments.quick else _RATES
    began = time.perf_counter()
    if place.device == "cpu":
        warm(torch.float32)
    compiled = time.perf_counter() - began
    tasks = cpu_tasks(rates, threads, place) if place.device == "cpu" else gpu_tasks(rates, place)
    rows = measure(tasks, arguments.seconds or (15 if arguments.quick else 120), place)
    load = os.getloadavg()[0]
    print(table(rows))
    machine = platform.machine() if place.device == "cpu" else torch.cuda.get_device_name()
    print(
        f"\n{machine}. warm(): {compiled:.1f} s. Load of the machine at the end: {load:.1f} on {os.cpu_count()} cores."
    )
    if arguments.json:
        about = {"machine": machine, "cores": os.cpu_count(), "load": load, "warm_seconds": compiled}
        arguments.json.write_text(json.dumps({**about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
