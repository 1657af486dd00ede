"""What heartbeats cost: the share of a round that the training thread spends on them, and the agent's processor time.

    python bench/heartbeats.py --quick
    python bench/heartbeats.py --rounds 0.1,1

One replica of one rank, by `ringtrain run`. Its rounds compute nothing, for a set time, and make the built-in trainer's
calls. docs/recovery.md says more.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from coordinator_agents import PROGRESS
from recovery_system import System
from ringtrain import Context, run
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress

_RANK = "--rank"
_WARM_UP = 10


def train(context: Context) -> None:
    """Rounds of a set time, of which it tells how much went into heartbeats."""
    seconds, rounds = float(sys.argv[2]), int(sys.argv[3])
    beats, own = 0.0, context.session.beat

    def timed(phase: Phase, progress: Progress | None = None) -> None:
        nonlocal beats
        begin = time.thread_time()
        own(phase, progress)
        beats += time.thread_time() - begin

    context.session.beat = timed  # type: ignore[method-assign]
    begun = agent = 0.0
    for round in range(1, _WARM_UP + rounds + 1):
        if round == _WARM_UP + 1:
            beats, begun, agent = 0.0, time.monotonic(), _used(os.getppid())
        context.beat()
        context.round_started(round)
        _compute(seconds)
        context.beat()
        context.beat(progress=PROGRESS.model_copy(update={"round": round}))
    elapsed = time.monotonic() - begun
    told = {"seconds": elapsed / rounds, "beats": beats / elapsed, "agent": (_used(os.getppid()) - agent) / elapsed}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _compute(seconds: float) -> None:
    """A thread that sleeps is woken late, and does what follows on a cold processor, which is not what is asked."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def _used(pid: int) -> float:
    """CPU seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Job(System):
    def __init__(self, directory: Path, seconds: float, rounds: int) -> None:
        super().__init__(directory)
        self._command = [sys.executable, str(Path(__file__).resolve()), _RANK, str(seconds), str(rounds)]

    def start(self) -> None:
        file = self.directory / "job.json"
        spec = {"image": "none", "replicas": 1, "device": "cpu", "command": self._command}
        kind = {"apiVersion": "ringtrain.io/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "bench"}}
        file.write_text(json.dumps(kind | {"spec": spec}))
        with self.log.open("wb") as log:
            command = [
                Path(sys.executable).with_name("ringtrain"),
                "run",
                f"--file={file}",
                f"--directory={self.directory}",
            ]
            self._runner = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment({}))

    def told(self) -> dict[str, float]:
        """Once the job is over. Raises RuntimeError when its rank told nothing."""
        self._runner.wait()
        (log,) = self.directory.glob("*/pods/*/log")
        for line in log.read_text().splitlines():
            if line.startswith("{"):
                told: dict[str, float] = json.loads(line)
                return told
        raise RuntimeError(f"the job failed:\n{self.log.read_text()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", default="0.1,1", help="comma-separated seconds of one (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="under a minute: proves that it runs, decides nothing")
    args = parser.parse_args()
    print("| a round, s | of it in heartbeats | agent, of a core | load |")
    print("|---|---|---|---|")
    for seconds in [0.1] if args.quick else map(float, args.rounds.split(",")):
        rounds = 20 if args.quick else round(30 / seconds)
        with tempfile.TemporaryDirectory() as directory, Job(Path(directory), seconds, rounds) as job:
            told = job.told()
        load = os.getloadavg()[0]
        print(f"| {told['seconds']:.3g} | {100 * told['beats']:.3f} % | {100 * told['agent']:.2f} % | {load:.1f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == [_RANK]:
        run(train)
    else:
        main()
