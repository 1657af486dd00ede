"""What checkpoints cost: beside torch.save and torch.distributed.checkpoint, in one run.

    python bench/checkpoint.py --quick
    python bench/checkpoint.py --cycles 3 --json results.json --directory /mnt/volume

Ranks are processes of this machine, on loopback, and train a GPT with real compute. Rows take turns, again and again.
A file that is there already is added to: what is in it is not measured again. docs/checkpoints.md says what the columns
mean.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from checkpoint_job import Job
from checkpoint_results import DCP_ASYNC, EVERY, FLOOR, RINGTRAIN, TORCH_SAVE, WAYS, Results, Row
from checkpoint_table import tables


def rows_of(ranks: int, quick: bool) -> Iterator[Row]:
    if not quick:
        yield from (Row(ranks=ranks, way=way) for way in WAYS)
        return
    for way in (FLOOR, TORCH_SAVE, DCP_ASYNC, RINGTRAIN) if ranks == 1 else (FLOOR, RINGTRAIN):
        yield Row(ranks=ranks, way=way, layers=4, width=128, heads=4)


def measure(rows: list[Row], cycles: int, rounds: int, root: Path, results: Results) -> None:
    """Rows whose ranks are alive, but for one of them asleep, take turns: `rounds` rounds in each cycle."""
    with ExitStack() as stack:
        jobs: dict[Row, Job] = {}
        for row in rows:
            if len(results.of(row).cycles) < cycles:
                directory = Path(tempfile.mkdtemp(dir=root))
                jobs[row] = stack.enter_context(Job(row, directory))
                jobs[row].warm_up()
        for cycle in range(cycles):
            for row, job in jobs.items():
                if len(results.of(row).cycles) == cycle:
                    results.of(row).cycles.append(job.cycle(rounds))
                    results.save()
        for row, job in jobs.items():
            results.of(row).once.append(job.end())
            results.save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1,2", help="comma-separated; a table for each (default: %(default)s)")
    parser.add_argument("--cycles", type=int, default=3, help="trials of each row, all rows one after another")
    parser.add_argument("--rounds", type=int, default=2 * EVERY, help="of each trial (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="under a minute: proves that it runs, decides nothing")
    parser.add_argument(
        "--directory", type=Path, help="for checkpoints, on the disk in question; default: beside --json"
    )
    parser.add_argument("--json", type=Path, help="kept after every row, and added to")
    args = parser.parse_args()
    results = Results.load(args.json)
    place = args.directory or (args.json.parent if args.json else Path.cwd())
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-", dir=place) as root:
        for ranks in map(int, args.ranks.split(",")):
            rows = list(rows_of(ranks, args.quick))
            cycles, rounds = (1, EVERY) if args.quick else (args.cycles, args.rounds)
            measure(rows, cycles, rounds, Path(root), results)
    print("\n\n".join(tables(results.rows)))


if __name__ == "__main__":
    main()
