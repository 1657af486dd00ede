"""`ringtrain run` as a user starts it, on a job that takes seconds."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from ringtrain.contract.addresses import AGENT_PORT, Addresses

JOB = """\
apiVersion: ringtrain.io/v1alpha1
kind: TrainingJob
metadata: {{name: {name}}}
spec:
  replicas: 3
  device: cpu
  trainer:
    rounds: {rounds}
    model: {{size: nano, layers: 1, contextLength: 32}}
    data: {{paths: [text/*.txt]}}
    batch: {{perRank: 2}}
    optimizer: {{warmupRounds: 2}}
  communication: {{inter: {inter}, warmupRounds: 4, errorFeedback: plain}}
  checkpoint:
    every: 5
    volume: {{claimTemplate: {{storage: 1Gi}}}}
  faultTolerance:
    maxRestarts: 3
    # Error feedback is a rank's own: without it a job would go on, but not with the same bits.
    recovery: Exact
    timeouts: {{training: {training_timeout}}}
"""
TEXT = "".join(
    f"The {number}th bottle of beer stands on the wall, where {number} others stood.\n" for number in range(999)
)


@dataclass(frozen=True)
class Finished:
    code: int
    output: str

    def fact(self, word: str) -> str:
        """What the summary says after `word`."""
        match = re.search(rf"^{word} +(.*)$", self.output, re.MULTILINE)
        assert match is not None, f"no {word!r} in:\n{self.output}"
        return match[1]


class Run:
    """A started `ringtrain run`, its output in a file."""

    def __init__(self, folder: Path, name: str, arguments: tuple[str, ...], shell: str) -> None:
        self.name = name
        command = [sys.executable, "-c", "from ringtrain_operator.cli import main; main()", "run", *arguments]
        self._log = folder / f"{name}-{time.monotonic_ns()}.log"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                ["bash", "-c", shell, "bash", *command] if shell else command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self._log.read_text()

    def wait_for(self, pattern: str) -> None:
        """Until a line matches; fails when the run ends before."""
        deadline = time.monotonic() + 240
        while not re.search(pattern, self.output, re.MULTILINE):
            assert self.process.poll() is None, f"ended without {pattern!r}:\n{self.output}"
            assert time.monotonic() < deadline, f"no {pattern!r} in:\n{self.output}"
            time.sleep(0.05)

    def finish(self) -> Finished:
        try:
            code = self.process.wait(240)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the run does not end:\n{self.output}")
        return Finished(code, self.output)

    def wait_until_no_process(self) -> None:
        deadline = time.monotonic() + 60
        while left := self.processes():
            assert time.monotonic() < deadline, f"processes {left} are left behind"
            time.sleep(0.05)

    def agents(self, replicas: int) -> list[str]:
        """HOST:PORT of each replica's agent, once the first process was started."""
        variables = (Path("/proc") / str(self.processes()[0]) / "environ").read_text().split("\0")
        table = next(value for each in variables if (value := each.removeprefix("RINGTRAIN_ADDRESSES=")) != each)
        addresses = Addresses.parse(table)
        return [f"{addresses.of(replica)}:{AGENT_PORT}" for replica in range(replicas)]

    def processes(self) -> list[int]:
        """Pods' processes of this job that are still there."""
        mark, found = f"RINGTRAIN_JOB={self.name}".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found


class Runs:
    """Starts runs in one folder, and ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Run] = []
        (folder / "text").mkdir()
        (folder / "text" / "beer.txt").write_text(TEXT)

    def start(
        self, *arguments: str, name: str, rounds: int = 15, training_timeout: float = 60, shell: str = "",
        inter: str = "gloo",
    ) -> Run:  # fmt: skip
        """`shell` is the line of bash that runs the command "$@", if any."""
        file = self.folder / f"{name}.yaml"
        file.write_text(JOB.format(name=name, rounds=rounds, training_timeout=training_timeout, inter=inter))
        return self.start_file(file.name, *arguments, name=name, shell=shell)

    def start_file(self, file: str, *arguments: str, name: str, shell: str = "") -> Run:
        """Runs the job `name` of a file in the folder."""
        run = Run(self.folder, name, ("-f", file, *arguments), shell)
        self._started.append(run)
        return run

    def checkpoints(self, name: str) -> list[Path]:
        """Of the job `name`, oldest first."""
        return sorted((self.folder / ".ringtrain" / name / "checkpoints").glob("round-*"))

    def log(self, name: str, pod: str) -> str:
        return (self.folder / ".ringtrain" / name / "pods" / pod / "log").read_text()

    def close(self) -> None:
        for run in self._started:
            if run.process.poll() is None:
                run.process.kill()
                run.process.wait()
            for pid in run.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
