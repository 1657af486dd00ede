"""What a pipeline costs: idle time, speed beside torch's own pipelining, memory.

    python bench/pipeline.py --quick
    python bench/pipeline.py --tables bubble,speed,memory --cycles 3 --json results.json
    python bench/pipeline.py --tables limit --cycles 1 --rounds 3

Ranks are processes of this machine, on loopback. A file that is there already is added to: what is in it is not
measured again.
"""

import argparse
import json
import multiprocessing
import statistics
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch._C._distributed_c10d import TCPStore

from pipeline_rank import Row, measure
from ringtrain.models import outline
from ringtrain.parallel.build import cut_model

SLEEP = 0.01
"""Seconds of one sub-layer's forward pass where compute is emulated; its backward pass takes twice that."""
SCHEDULES = ("GPipe", "1F1B", "Interleaved1F1B")
_SECONDS = 900.0
BYTES = 256
"""Token ids."""
ROOM, QUICK_ROOM = 1900, 460
"""MiB that each rank may allocate in table `limit`."""


_SLEEPING: dict[str, Any] = {"sleep": SLEEP, "width": 32, "heads": 2, "context_length": 32}


def bubble_rows(quick: bool) -> Iterator[Row]:
    for pipeline, microbatches in [(2, 4)] if quick else [(2, 4), (2, 8), (4, 4), (4, 8), (4, 16)]:
        for schedule in SCHEDULES:
            yield Row(table="bubble", pipeline=pipeline, microbatches=microbatches, schedule=schedule, **_SLEEPING)


def speed_rows(quick: bool) -> Iterator[Row]:
    computing: dict[str, Any] = {}
    for pipeline, compute in [(2, computing)] if quick else [(2, computing), (4, _SLEEPING)]:
        for schedule in ("1F1B",) if quick else SCHEDULES:
            for peer in (True, False):
                yield Row(table="speed", pipeline=pipeline, microbatches=8, schedule=schedule, peer=peer, **compute)


def memory_rows(quick: bool) -> Iterator[Row]:
    size: dict[str, Any] = {"width": 128} if quick else {"layers": 12, "width": 512, "heads": 8, "context_length": 256}
    for pipeline in (1, 2) if quick else (1, 2, 4):
        for again in (False, True):
            yield Row(
                table="memory",
                pipeline=pipeline,
                microbatches=8,
                schedule="1F1B",
                activation_checkpointing=again,
                **size,
            )


def limit_rows(quick: bool) -> Iterator[Row]:
    size: dict[str, Any] = {"layers": 4 if quick else 32, "width": 1024, "heads": 8, "context_length": 16}
    for pipeline in (1, 2, 4):
        # One micro-batch: gradients are summed where they arise, and nothing adds up before.
        yield Row(
            table="limit",
            pipeline=pipeline,
            microbatches=1,
            schedule="GPipe",
            activation_checkpointing=True,
            room=QUICK_ROOM if quick else ROOM,
            **size,
        )


TABLES = {"bubble": bubble_rows, "speed": speed_rows, "memory": memory_rows, "limit": limit_rows}


def run(row: Row, rounds: int) -> list[dict[str, Any]]:
    """What each rank of the row measured."""
    context = multiprocessing.get_context("spawn")
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipes = [context.Pipe() for _ in range(row.pipeline)]
    processes = [
        context.Process(target=measure, args=(theirs, row, rank, store.port, rounds))
        for rank, (_, theirs) in enumerate(pipes)
    ]
    try:
        for process, (_, theirs) in zip(processes, pipes, strict=True):
            process.start()
            theirs.close()
        found = []
        for rank, (ours, _) in enumerate(pipes):
            if not ours.poll(_SECONDS):
                raise SystemExit(f"rank {rank} of {row} says nothing")
            found.append(ours.recv())
        for ours, _ in pipes:
            with suppress(BrokenPipeError):
                ours.send("end")
        return found
    finally:
        for process in processes:
            process.join(10)
            process.kill()


def _joined(row: Row, ranks: list[dict[str, Any]]) -> dict[str, Any]:
    died = [rank["died"] for rank in ranks if "died" in rank]
    if died:
        return {"row": asdict(row), "died": died}
    return {
        "row": asdict(row),
        "seconds": [max(values) for values in zip(*(rank["seconds"] for rank in ranks), strict=True)],
        "peaks": [rank["peak_mebibytes"] for rank in ranks],
        "parameters": [rank["parameters"] for rank in ranks],
    }


def bubble_table(results: list[dict[str, Any]]) -> Iterator[str]:
    yield "| ranks | micro-batches | schedule | batch, s | idle, measured | idle, (p-1)/(vm+p-1) |"
    yield "|---|---|---|---|---|---|"
    for row, trials in _by_row(results, "bubble"):
        seconds = statistics.median(max(rank["seconds"]) for rank in trials)
        stages = 2 if row.schedule == "Interleaved1F1B" else 1
        idle = (row.pipeline - 1) / (stages * row.microbatches + row.pipeline - 1)
        busy = row.microbatches * row.sublayers / row.pipeline * 3 * row.sleep
        yield (
            f"| {row.pipeline} | {row.microbatches} | {row.schedule} | {seconds:.3f} | {1 - busy / seconds:.1%} "
            f"| {idle:.1%} |"
        )


def speed_table(results: list[dict[str, Any]]) -> Iterator[str]:
    yield "| ranks | compute | schedule | torch alone, tokens/s | Ringtrain, tokens/s | ratio, by cycle | trials |"
    yield "|---|---|---|---|---|---|---|"
    speeds: dict[Row, list[float]] = {}
    for row, trials in _by_row(results, "speed"):
        speeds[row] = [row.tokens / statistics.median(rank["seconds"]) for rank in trials]
    for row, peers in speeds.items():
        ours = speeds.get(row.ours, [])
        if not row.peer or not ours:
            continue
        ratios = " ".join(f"{mine / theirs:.3f}" for mine, theirs in zip(ours, peers, strict=False))
        yield (
            f"| {row.pipeline} | {'emulated' if row.sleep else 'real'} | {row.schedule} "
            f"| {statistics.median(peers):.0f} | {statistics.median(ours):.0f} | {ratios} | {len(peers)} |"
        )


def memory_table(results: list[dict[str, Any]]) -> Iterator[str]:
    yield "| ranks | activation checkpointing | parameters, largest rank | states, MiB | peak, MiB, by rank |"
    yield "|---|---|---|---|---|"
    for row, trials in _by_row(results, "memory"):
        peaks = [round(statistics.median(values)) for values in zip(*(trial["peaks"] for trial in trials), strict=True)]
        parameters = max(trials[0]["parameters"])
        yield (
            f"| {row.pipeline} | {'yes' if row.activation_checkpointing else 'no'} | {parameters / 1e6:.1f} M "
            f"| {16 * parameters / 2**20:.0f} | {' '.join(map(str, peaks))} |"
        )


def limit_table(results: list[dict[str, Any]]) -> Iterator[str]:
    yield "| ranks | states, whole model, MiB | states, largest rank, MiB | limit of each rank, MiB | it trains |"
    yield "|---|---|---|---|---|"
    for row, trials in _by_row(results, "limit"):
        whole, largest = (16 * parameters / 2**20 for parameters in _parameters(row))
        how = "no, a rank's memory is exhausted"
        if "peaks" in trials[0]:
            how = f"yes, peak {' '.join(f'{peak:.0f}' for peak in trials[0]['peaks'])}"
        elif not any("memory" in text for text in trials[0]["died"]):
            how = f"no: {trials[0]['died'][0]}"
        yield f"| {row.pipeline} | {whole:.0f} | {largest:.0f} | {row.room} | {how} |"


def _parameters(row: Row) -> tuple[int, int]:
    """(of the whole model, of the rank that holds most)"""
    stages = cut_model(row.config, row.parallelism, BYTES)
    held = [sum(p.numel() for p in outline(row.config.model, BYTES, [stage]).parameters()) for stage in stages]
    return sum(p.numel() for p in outline(row.config.model, BYTES).parameters()), max(held)


def _by_row(results: list[dict[str, Any]], table: str) -> Iterator[tuple[Row, list[dict[str, Any]]]]:
    found: dict[Row, list[dict[str, Any]]] = {}
    for result in results:
        row = Row.from_json(result["row"])
        if row.table == table:
            found.setdefault(row, []).append(result)
    yield from found.items()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="bubble,speed,memory", help=", ".join(TABLES))
    parser.add_argument("--cycles", type=int, default=3, help="trials of each row, all rows one after another")
    parser.add_argument("--rounds", type=int, default=6, help="of each trial; the first two are not counted")
    parser.add_argument("--quick", action="store_true", help="under a minute: proves that it runs, decides nothing")
    parser.add_argument("--json", type=Path, help="kept after every row, and added to")
    args = parser.parse_args()
    results = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    tables = args.tables.split(",")
    for cycle in range(1 if args.quick else args.cycles):
        for row in (row for table in tables for row in TABLES[table](args.quick)):
            if sum(Row.from_json(result["row"]) == row for result in results) > cycle:
                continue
            ranks = run(row, 3 if args.quick else args.rounds)
            results.append(_joined(row, ranks))
            if args.json:
                args.json.write_text(json.dumps(results, indent=1) + "\n")
    printed = (("bubble", bubble_table), ("speed", speed_table), ("memory", memory_table), ("limit", limit_table))
    for table, lines in printed:
        if table in tables:
            print("\n".join(lines(results)), end="\n\n")


if __name__ == "__main__":
    main()
