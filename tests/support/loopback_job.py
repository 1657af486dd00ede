"""A job of real agents on loopback addresses, started without any operator."""

import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ringtrain.contract.addresses import AGENT_PORT
from ringtrain.contract.environment import CheckpointSettings, ReplicaEnvironment
from ringtrain.contract.faults import parse_faults
from ringtrain.contract.output import prefix
from ringtrain.contract.phases import Phase, PhaseTimeouts
from ringtrain.contract.preflight import Preflight
from ringtrain.contract.report import AgentStatus, TerminationMessage
from ringtrain_operator.local.loopback import LoopbackBlock
from support.environments import replica_environment
from support.processes import processes, running, send

LOOP_SCRIPT = Path(__file__).parent / "loop_script.py"
PATIENCE = 240.0
"""Seconds until a condition counts as never to come true."""


def loop_command(rounds: int, pause: float = 0.05) -> tuple[str, ...]:
    return (sys.executable, str(LOOP_SCRIPT), str(rounds), str(pause))


@dataclass
class LoopbackJob:
    """`start` stands for the operator's making of a pod, `kill` for the loss of one."""

    directory: Path
    replicas: int = 3
    procs_per_replica: int = 1
    command: tuple[str, ...] = ()
    timeouts: PhaseTimeouts = field(default_factory=PhaseTimeouts)
    faults: str = ""
    checkpoint: CheckpointSettings | None = None
    grace_seconds: float = 20.0
    first_epoch: int = 0
    in_place_restarts: int = 0
    preflight: Preflight | None = None
    prefix: tuple[str, ...] = ()
    """Of the command that starts an agent."""
    agents: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    """The newest of each replica."""

    def __post_init__(self) -> None:
        self._block = LoopbackBlock(random.Random())
        self.addresses = self._block.addresses
        self.name = f"job-{os.getpid()}-{random.randrange(10**9)}"
        self._all: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []

    def environment(self, replica: int, epoch: int = 0) -> ReplicaEnvironment:
        return replica_environment(
            job=self.name,
            replica=replica,
            replicas=self.replicas,
            procs_per_replica=self.procs_per_replica,
            epoch=epoch,
            addresses=self.addresses,
            timeouts=self.timeouts,
            in_place_restarts=self.in_place_restarts,
            preflight=self.preflight,
            grace_seconds=self.grace_seconds,
            termination_log=str(self.termination_log(replica, epoch)),
            checkpoint=self.checkpoint,
            command=self.command,
            faults=parse_faults(self.faults),
        )

    def start(self, replica: int, epoch: int = 0) -> subprocess.Popen[bytes]:
        log = (self.directory / f"replica-{replica}.log").open("ab")
        self._logs.append(log)
        # The agent itself in a session of its own, as a container would be.
        agent = subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "ringtrain.agent"],
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment(replica, epoch).to_env()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.agents[replica] = agent
        self._all.append(agent)
        return agent

    def start_all(self) -> None:
        for replica in range(self.replicas):
            self.start(replica, self.first_epoch)

    def kill(self, replica: int) -> None:
        """As the loss of a pod: everything in it dies at once."""
        victims = self.processes(replica)
        for pid in victims:
            send(pid, signal.SIGKILL)
        self.agents[replica].wait(PATIENCE)

    def wait(self, replica: int) -> int:
        """The exit code of a replica's newest agent."""
        return self.agents[replica].wait(PATIENCE)

    def termination_log(self, replica: int, epoch: int = 0) -> Path:
        return self.directory / f"termination-{replica}-{epoch}.json"

    def termination(self, replica: int, epoch: int = 0) -> TerminationMessage:
        return TerminationMessage.model_validate_json(self.termination_log(replica, epoch).read_text())

    def log(self, replica: int) -> str:
        return (self.directory / f"replica-{replica}.log").read_text(errors="replace")

    def printed(self, rank: int) -> str:
        """What a rank has printed; with one rank a replica, what its agent logs too."""
        log = self.log(rank // self.procs_per_replica)
        if self.procs_per_replica == 1:
            return log
        own = prefix(rank)
        return "".join(line.removeprefix(own) for line in log.splitlines(keepends=True) if line.startswith(own))

    def get(self, replica: int, path: str) -> tuple[int, str]:
        """(HTTP status, body); (0, the error) when the agent does not answer."""
        url = f"http://{self.addresses.of(replica)}:{AGENT_PORT}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def status(self, replica: int) -> AgentStatus | None:
        code, body = self.get(replica, "/status")
        return AgentStatus.model_validate_json(body) if code == 200 else None

    def phase(self, replica: int = 0) -> Phase | None:
        """Of the replica's first rank; None when the agent does not answer."""
        status = self.status(replica)
        return status.ranks[0].phase if status and status.ranks else None

    def round(self, replica: int = 0) -> int:
        """Rounds that the replica's first rank has finished; 0 when it is not training."""
        status = self.status(replica)
        if status is None or not status.ranks or status.ranks[0].phase is not Phase.TRAINING:
            return 0
        progress = status.ranks[0].progress
        return progress.round if progress else 0

    def generation(self, replica: int = 0) -> str | None:
        status = self.status(replica)
        return status.job_report.generation if status and status.job_report else None

    def rank_pid(self, replica: int, local_rank: int = 0) -> int:
        status = self.status(replica)
        assert status is not None
        pid = status.ranks[local_rank].pid
        assert pid is not None
        return pid

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Waits for `condition`; fails with all logs when it never comes true."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(f"--- replica {replica}\n{self.log(replica)[-4000:]}" for replica in self.agents)
                raise AssertionError(f"waited in vain for: {what}\n{logs}")
            time.sleep(0.05)

    def processes(self, replica: int | None = None) -> list[int]:
        """Every living process of the job, or of one replica of it, however deep it lies."""
        one = {} if replica is None else {"RINGTRAIN_REPLICA": str(replica)}
        return processes(RINGTRAIN_JOB=self.name, **one)

    def pid_of(self, replica: int, module: str) -> int:
        """The process that runs `python -m module` in a replica."""
        (pid,) = running(module, self.processes(replica))
        return pid

    def standbys(self, replica: int) -> list[int]:
        """The standby of a replica, and its forks: the ranks."""
        return running("ringtrain.runtime.standby", self.processes(replica))

    def close(self) -> None:
        """Ends everything by force."""
        for pid in self.processes():
            send(pid, signal.SIGKILL)
        for agent in self._all:
            agent.wait(PATIENCE)
        for log in self._logs:
            log.close()
        self._block.close()


def terminate(agent: subprocess.Popen[bytes]) -> None:
    agent.send_signal(signal.SIGTERM)
