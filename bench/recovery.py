"""How long jobs stand still after a fault: beside torchrun and torchft, in one run.

    python bench/recovery.py --quick
    python bench/recovery.py --trials 3 --json results.json

Four ranks on this machine, on loopback, train the same model. Systems take turns: each is started, suffers every fault
once, and is ended, again and again. A file that is there already is added to. docs/recovery.md says what the columns
mean. torchft is installed into a directory of its own below .cache when it is missing.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from recovery_ours import Ringtrain
from recovery_results import FAULTS, KILL, OWN_FAULTS, RINGTRAIN, SYSTEMS, TORCHFT, TORCHRUN, Results, Row, Trial
from recovery_rounds import cost, round_seconds
from recovery_system import System
from recovery_table import tables
from recovery_torchft import TorchFT
from recovery_torchrun import Torchrun

MAKE: Mapping[str, Callable[[Path], System]] = {RINGTRAIN: Ringtrain, TORCHRUN: Torchrun, TORCHFT: TorchFT}
_ROUNDS_BEFORE, _ROUNDS_BEFORE_QUICK = 20, 5
_SECONDS = 90.0
"""A job that is not whole again by then never is."""


def suffer(system: System, fault: str, moments: random.Random, rounds: int = _ROUNDS_BEFORE) -> Trial:
    """Waits until all ranks have trained some rounds; strikes at some moment of one; waits until they train again."""
    system.until_whole(rounds)
    usual = round_seconds(list(system.finished), time.time())
    time.sleep(moments.uniform(0, usual))
    load = os.getloadavg()[0]
    fault_at = time.time()
    system.strike(fault)
    deadline = time.monotonic() + _SECONDS
    while cost(list(system.finished), fault_at).full_at is None and time.monotonic() < deadline:
        time.sleep(0.05)
    found = cost(list(system.finished), fault_at)
    system.after(fault)
    return Trial(
        any_size=found.any_at and found.any_at - fault_at,
        full_size=found.full_at and found.full_at - fault_at,
        lost=found.lost,
        round_seconds=usual,
        steps=system.steps(fault_at, found.full_at) if found.full_at else {},
        load=load,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3, help="of each row (default: %(default)s)")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--faults", help="comma-separated parts of their names; default: all")
    parser.add_argument("--quick", action="store_true", help="under a minute: proves that it runs, decides nothing")
    parser.add_argument("--json", type=Path, help="kept after every trial, and added to")
    args = parser.parse_args()
    results, moments = Results.load(args.json), random.Random(0)
    wanted = [KILL] if args.quick else [*FAULTS, *OWN_FAULTS]
    for _ in range(1 if args.quick else args.trials):
        for name in args.systems.split(","):
            faults = [fault for fault in wanted if fault in FAULTS or name == RINGTRAIN]
            faults = [fault for fault in faults if not args.faults or any(map(fault.count, args.faults.split(",")))]
            with tempfile.TemporaryDirectory(prefix="bench-recovery-") as directory, MAKE[name](Path(directory)) as job:
                for fault in faults:
                    trial = suffer(job, fault, moments, _ROUNDS_BEFORE_QUICK if args.quick else _ROUNDS_BEFORE)
                    print(f"{name}, {fault}: {trial}", file=sys.stderr)
                    results.of(Row(system=name, fault=fault)).append(trial)
                    results.save()
    print("\n\n".join(tables(results.rows)))


if __name__ == "__main__":
    main()
