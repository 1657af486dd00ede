"""A real coordinator with its store; the test plays the agents."""

import contextlib
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from ringtrain.checkpoint import volume
from ringtrain.contract.addresses import COORDINATOR_PORT
from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import (
    MAXIMUM_LINE,
    Alive,
    Committed,
    Done,
    Enter,
    Finished,
    Hello,
    JobReported,
    Leave,
    Message,
    Ready,
    ShardFile,
    ShardsWritten,
    decode,
    encode,
)
from ringtrain.contract.model import ContractModel
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.report import JobReport
from ringtrain_operator.local.loopback import LoopbackBlock
from support.environments import replica_environment

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]

PATIENCE = 120.0


Heard = TypeVar("Heard", bound=ContractModel)


class Agent:
    """The agent of a replica of one rank."""

    def __init__(self, host: str, replica: int) -> None:
        self.rank = replica
        self._socket = _connect(host)
        self._lock = threading.Lock()
        self._buffer = b""
        self._silent = threading.Event()
        self._signs = threading.Thread(target=self._give_signs_of_life)
        hello = Hello(job="job", replica=replica, epoch=0, ranks=(replica,))
        self.say(hello, Ready(rank=replica))
        self._signs.start()

    def say(self, *messages: Message) -> None:
        with self._lock:
            self._socket.sendall(b"".join(map(encode, messages)))

    def hear(self, kind: type[Heard]) -> Heard:
        """The next message of this kind."""
        self._socket.settimeout(PATIENCE)
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if not found:
                data = self._socket.recv(1 << 16)
                assert data, f"the connection was closed before any {kind.__name__}"
                self._buffer += data
                continue
            self._buffer = rest
            message = decode(line)
            if isinstance(message, kind):
                return message

    def vanish(self) -> None:
        """No FIN, no RST, no sign of life any more."""
        self._silent.set()
        self._signs.join()

    def close(self) -> None:
        self.vanish()
        self._socket.close()

    def _give_signs_of_life(self) -> None:
        while not self._silent.wait(0.5):
            try:
                self.say(Alive())
            except OSError:
                return


def _connect(host: str) -> socket.socket:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((host, COORDINATOR_PORT), 5)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


class Coordinator:
    """The process, and what it leaves on its volume."""

    def __init__(self, directory: Path) -> None:
        self.volume = directory / "volume"
        self.volume.mkdir(exist_ok=True)
        self._mark = f"RINGTRAIN_TEST={random.randrange(10**12)}"
        self._block = LoopbackBlock(random.Random())
        self.host = self._block.addresses.of(0)
        environment = replica_environment(
            replicas=2,
            addresses=self._block.addresses,
            checkpoint=CheckpointSettings(directory=str(self.volume), keep=1, keep_every=5),
            parallelism=ParallelismConfig(pipeline=2),
        )
        key, value = self._mark.split("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ringtrain.coordinator"], env={**os.environ, **environment.to_env(), key: value}
        )

    def store_pid(self) -> int:
        (pid,) = [pid for pid in self.pids() if pid != self.process.pid]
        return pid

    def pids(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and self._mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._block.close()


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    coordinator = Coordinator(tmp_path)
    yield coordinator
    coordinator.close()
    deadline = time.monotonic() + PATIENCE
    while coordinator.pids():
        assert time.monotonic() < deadline, "the store outlives its coordinator"
        time.sleep(0.05)


@pytest.fixture
def agents(coordinator: Coordinator) -> Iterator[list[Agent]]:
    """Of both replicas, in generation 0.0."""
    agents = [Agent(coordinator.host, 0), Agent(coordinator.host, 1)]
    try:
        assert [agent.hear(Enter).generation for agent in agents] == ["0.0", "0.0"]
        yield agents
    finally:
        for agent in agents:
            agent.close()


def _write_shard(coordinator: Coordinator, round: int, rank: int, generation: str = "0.0") -> ShardFile:
    path = volume.staging(coordinator.volume, Generation.parse(generation), round) / f"rank-{rank}"
    path.write_bytes(b"x" * rank)
    return ShardFile(path=path.name, size=rank, sha256=hashlib.sha256(b"x" * rank).hexdigest())


def _until_committed(agent: Agent) -> tuple[JobReport | None, Committed]:
    """The last report before it."""
    report = None
    while not isinstance(message := agent.hear(ContractModel), Committed):
        if isinstance(message, JobReported):
            report = message.report
    return report, message


def test_checkpoints_are_committed_and_pruned_and_the_job_ends(coordinator: Coordinator, agents: list[Agent]) -> None:
    for round in (5, 7, 10):
        for agent in agents:
            files = (_write_shard(coordinator, round, agent.rank),)
            agent.say(ShardsWritten(rank=agent.rank, generation="0.0", round=round, files=files))
        for agent in agents:
            told, answer = _until_committed(agent)
            assert answer == Committed(generation="0.0", round=round)
            # Ranks that are to stop do so now, and their agents with them: they must know of it.
            assert told is not None
            assert told.last_checkpoint is not None
            assert told.last_checkpoint.round == round
    kept, multiple = volume.candidates(coordinator.volume)
    assert (kept.round, kept.generation, kept.problem) == (10, Generation(0, 0), "")
    assert (multiple.round, multiple.problem) == (5, "")
    assert kept.manifest is not None
    assert kept.manifest.mesh == Mesh(data=1, pipeline=2)

    # A rank that lies about its file makes no checkpoint.
    for agent in agents:
        file = _write_shard(coordinator, 15, agent.rank).model_copy(update={"size": 99})
        agent.say(ShardsWritten(rank=agent.rank, generation="0.0", round=15, files=(file,)))
    for agent in agents:
        assert "99" in agent.hear(Committed).error
    report = agents[0].hear(JobReported).report
    assert report.last_checkpoint is not None
    assert report.last_checkpoint.round == 10
    assert [notice.reason for notice in report.notices] == ["CheckpointFailed"]

    for agent in agents:
        agent.say(Done(rank=agent.rank, round=15))
    for agent in agents:
        while not agent.hear(JobReported).report.finished:
            pass
        agent.hear(Finished)
        agent.close()
    assert coordinator.process.wait(PATIENCE) == 0


def test_a_volume_of_higher_generations_is_gone_on_with(tmp_path: Path) -> None:
    # As that of a job which was deleted and made anew with the same claim.
    root = tmp_path / "volume"
    volume.staging(root, Generation(3, 1), 20)
    volume.commit(root, Generation(3, 1), 20, {0: (), 1: ()}, Mesh(data=2), job="job")
    # It was killed in mid-save: what is there already cannot be written.
    (volume.staging(root, Generation(3, 4), 5) / "rank-0").touch()
    coordinator = Coordinator(tmp_path)
    agents = [Agent(coordinator.host, 0), Agent(coordinator.host, 1)]
    try:
        assert [agent.hear(Enter).generation for agent in agents] == ["3.5", "3.5"]
        report = agents[0].hear(JobReported).report
        assert report.last_checkpoint is not None
        assert report.last_checkpoint.round == 20
        for agent in agents:
            files = (_write_shard(coordinator, 5, agent.rank, "3.5"),)
            agent.say(ShardsWritten(rank=agent.rank, generation="3.5", round=5, files=files))
        assert agents[0].hear(Committed) == Committed(generation="3.5", round=5)
    finally:
        for agent in agents:
            agent.close()
        coordinator.close()


def test_strangers_and_silent_clients_hurt_nobody(coordinator: Coordinator, agents: list[Agent]) -> None:
    strangers = [_connect(coordinator.host) for _ in range(4)]
    strangers[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
    strangers[1].sendall(encode(Alive()))
    strangers[2].sendall(encode(Hello(job="other", replica=0, epoch=9, ranks=(0,))))
    with contextlib.suppress(ConnectionError):
        strangers[3].sendall(b"x" * (3 * MAXIMUM_LINE))
    silent = _connect(coordinator.host)
    for stranger in [*strangers, silent]:
        stranger.settimeout(PATIENCE)
        # The silent one is closed too, some seconds later.
        with contextlib.suppress(ConnectionError):
            while stranger.recv(1 << 16):
                pass
        stranger.close()
    for agent in agents:
        assert agent.hear(JobReported).report.generation == "0.0"


def test_an_agent_that_vanishes_without_a_word_is_noticed(coordinator: Coordinator, agents: list[Agent]) -> None:
    agents[1].vanish()
    assert "replica 1 is lost" in agents[0].hear(Leave).reason
    assert agents[0].hear(JobReported).report.absent_replicas == (1,)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_loss_of_the_store_is_a_new_attempt(
    coordinator: Coordinator, agents: list[Agent], number: signal.Signals
) -> None:
    os.kill(coordinator.store_pid(), number)
    for agent in agents:
        assert "store" in agent.hear(Leave).reason
        agent.say(Ready(rank=agent.rank, after="0.0"))
    assert agents[0].hear(Enter).generation == "0.1"
    assert agents[1].hear(Enter).generation == "0.1"
