"""What does summing gradients cost a round of training? torch's ways and ours, between machines with slow links.

    python bench/communication.py --quick
    python bench/communication.py --layout 4x1 --compute emulated --json results.json
    python bench/communication.py --layout 4x1 --compute emulated --json results.json --rows zfp-4-direct --cycles 5

Machines are network namespaces, so this needs root. A file that is there already is added to: what it has of a row is
not measured again, and its link speed and compute times are kept. docs/communication.md says what the columns mean.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from links import Network
from machines import Ranks
from results import Results, Setting, Trial
from ringtrain.contract.trainer_config import BatchConfig, DataConfig, ModelConfig, TrainerConfig
from rows import FLOOR, SIXTEEN_BITS, rows
from tables import table

_CALIBRATION_TRIALS = 6
_WANTED = 0.275
"""Exposed share of the plain 16-bit row."""
_NEAR_ENOUGH = 0.02
_QUICK = ("ddp-fp16", "zfp-4-direct")


class Bench:
    """Measures rows in one setting."""

    def __init__(self, setting: Setting, results: Results, network: Network, ranks: Ranks, rounds: int) -> None:
        self._setting = setting
        self._results = results
        self._network = network
        self._ranks = ranks
        self._rounds = rounds

    def calibrate(self, megabit: float | None) -> None:
        """Measures what the file does not have: compute times, and the link's speed unless it is given."""
        links, setting = self._results.links, self._setting
        if setting.emulated and self._results.profile is None:
            self._results.profile = self._ranks.profile()
            self._results.save()
        if setting.name not in links:
            links[setting.name] = megabit or self._search()
            self._results.save()
        print(f"link: {links[setting.name]:.0f} Mbit/s each way", flush=True)

    def measure(self, names: list[str], cycles: int) -> None:
        """One trial of each row after another, and that so many times."""
        for cycle in range(cycles):
            missing = [name for name in names if self._results.cycles(self._setting, name) <= cycle]
            if not missing:
                continue
            for index, name in enumerate(missing):
                if index == 0 or not self._setting.emulated:  # Real compute takes as long as other processes let it.
                    floor = self._trial(FLOOR, self._results.links[self._setting.name], None)
                    self._results.add(floor)
                trial = self._trial(name, self._results.links[self._setting.name], floor.seconds)
                self._results.add(trial)
                print(trial.line(), flush=True)

    def _search(self) -> float:
        """The speed at which the plain 16-bit row waits for its wanted share."""
        floor = self._trial(FLOOR, None, None)
        wanted = floor.seconds * _WANTED / (1 - _WANTED)
        megabit = None
        for _ in range(_CALIBRATION_TRIALS):
            trial = self._trial(SIXTEEN_BITS, megabit, floor.seconds)
            print(f"calibrating: {trial.line()}", flush=True)
            if megabit is not None and abs(trial.exposed_share - _WANTED) <= _NEAR_ENOUGH:
                return megabit
            sent = max(trial.wire_bytes) * 8 / 1e6
            # Whatever the speed, about the same part of the sending lies behind compute.
            hidden = sent / megabit - trial.exposed_seconds if megabit is not None else floor.seconds / 2
            megabit = sent / max(wanted + hidden, 0.1 * floor.seconds)
        assert megabit is not None
        return megabit

    def _trial(self, name: str, megabit: float | None, floor: float | None) -> Trial:
        self._network.shape(None)
        self._ranks.prepare(name, self._results.profile if self._setting.emulated else None)
        self._network.shape(megabit)
        self._ranks.run(1)
        before, dropped = self._network.sent_bytes(), self._network.dropped()
        answers = self._ranks.run(self._rounds)
        after = self._network.sent_bytes()
        trial = Trial.of(
            setting=self._setting.name,
            row=name,
            megabit=megabit,
            floor=floor,
            wire_bytes=[(end - begin) / self._rounds for begin, end in zip(before, after, strict=True)],
            dropped=self._network.dropped() - dropped,
            load=os.getloadavg()[0],
            answers=answers,
        )
        self._ranks.end()
        return trial


def configuration(args: argparse.Namespace) -> TrainerConfig:
    size = "nano" if args.quick else args.size
    return TrainerConfig(
        rounds=1,
        model=ModelConfig(size=size, layers=args.layers, context_length=128),
        data=DataConfig(paths=("{stdlib}/*.py",)),
        batch=BatchConfig(per_rank=args.batch),
    )


def run(args: argparse.Namespace) -> None:
    names = _names(args)
    layouts = ["2x1"] if args.quick else args.layout.split(",")
    config = configuration(args)
    results = Results.load(args.json, config)
    if args.show:
        print("\n".join(table(Setting.named(name), results) for name in results.links))
        return
    for layout in layouts:
        machines, processes = map(int, layout.split("x"))
        for compute in args.compute.split(","):
            setting = Setting(machines, processes, compute)
            with Network(machines) as network, Ranks(network, setting, config) as ranks:
                bench = Bench(setting, results, network, ranks, args.rounds)
                bench.calibrate(args.link)
                bench.measure(names, args.cycles)
            print(table(setting, results), flush=True)


def _names(args: argparse.Namespace) -> list[str]:
    known = [name for name in rows() if name != FLOOR]
    names: list[str] = known if args.rows == "all" else args.rows.split(",")
    if args.quick:
        names = list(_QUICK)
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"--rows {','.join(unknown)}: no such row; there are {', '.join(known)}")
    return names


def _end(number: int, _frame: FrameType | None) -> None:
    """The namespaces must go, so they are removed as for any error; a second signal must not stop that."""
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="all", help="by name, with commas")
    parser.add_argument("--layout", default="4x1", help="machines x processes on each, with commas: 4x1,2x2,8x1")
    parser.add_argument("--compute", default="emulated", help="emulated, real, or both with a comma")
    parser.add_argument("--size", default="small", help="of the built-in GPT")
    parser.add_argument("--layers", type=int, help="in place of the size's")
    parser.add_argument("--batch", type=int, default=8, help="sequences of each rank")
    parser.add_argument("--rounds", type=int, default=5, help="measured in each trial")
    parser.add_argument("--cycles", type=int, default=3, help="trials of each row")
    parser.add_argument("--link", type=float, help="Mbit/s, in place of calibrating")
    parser.add_argument("--quick", action="store_true", help="under a minute: proves that it runs, decides nothing")
    parser.add_argument("--json", type=Path, help="kept after every trial, and added to")
    parser.add_argument("--show", action="store_true", help="the tables of what is in the file, and nothing else")
    args = parser.parse_args()
    if args.quick:
        args.link, args.cycles, args.compute = args.link or 50.0, 1, "emulated"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    run(args)


if __name__ == "__main__":
    main()
