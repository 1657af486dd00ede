"""`ringtrain.run` in a real rank, the only one of its job, with a real store; the test plays the agent."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.messages import Broken, Done, Enter, Failing, Finished, Leave, Ready, Report, Stop
from support.agent_end import AgentEnd
from support.environments import replica_environment

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]

ENVIRONMENT = replica_environment()
HOST = "127.0.0.1"
PATIENCE = 120.0

_PROGRAM = """
import ringtrain, sys, time, torch
from ringtrain.comm.errors import PeerLost

def train(context):
    times = context.state["times"] = context.state.get("times", 0) + 1
    total = torch.ones(3)
    context.group.all_reduce(total)
    found = f"{context.generation} for the {times}. time, sum {total[0]:g} of {context.world_size}"
    context.session.report("Entered", found)
    BODY

ringtrain.run(train)
"""


class Rank:
    """The rank's process, and the agent's end of its socket."""

    def __init__(self, body: str, environment: ReplicaEnvironment, log: Path) -> None:
        ours, theirs = socket.socketpair()
        self.agent = AgentEnd(ours)
        self.log = log
        with theirs, log.open("wb") as output:
            fd = str(theirs.fileno())
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM.replace("BODY", body)],
                env={**os.environ, **environment.to_env(), "RANK": "0", "LOCAL_RANK": "0", "RINGTRAIN_RANK_FD": fd},
                pass_fds=[theirs.fileno()],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def enter(self, generation: str, port: int) -> Ready:
        ready = self.agent.hear_until(Ready)
        assert isinstance(ready, Ready)
        self.agent.tell(Enter(generation=generation, world_size=1, store_host=HOST, store_port=port))
        return ready

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.agent.close()


@pytest.fixture(scope="module")
def store_port() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as probe:
        port = int(probe.getsockname()[1])
    store = subprocess.Popen(
        [sys.executable, "-m", "ringtrain.runtime.store", f"--host={HOST}", f"--port={port}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with store:
        assert store.stdout is not None
        assert store.stdin is not None
        assert b"ready" in store.stdout.readline()
        yield port
        # Its parent has gone: it ends by itself.
        store.stdin.close()
        assert store.wait(PATIENCE) == 0


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[list[Rank]]:
    ranks: list[Rank] = []
    yield ranks
    for rank in ranks:
        rank.close()


def start(ranks: list[Rank], body: str, tmp_path: Path, environment: ReplicaEnvironment = ENVIRONMENT) -> Rank:
    ranks.append(Rank(body, environment, tmp_path / "log"))
    return ranks[-1]


WAIT = "while True: time.sleep(0.01); context.beat()"


def test_training_is_entered_again_in_the_same_process_with_its_state(
    ranks: list[Rank], store_port: int, tmp_path: Path
) -> None:
    rank = start(ranks, f"if times < 3: {WAIT}".replace("while", "\n        while"), tmp_path)
    agent = rank.agent
    for times, (generation, after) in enumerate([("0.0", None), ("0.1", "0.0"), ("2.0", "0.1")], start=1):
        assert rank.enter(generation, store_port) == Ready(rank=0, after=after)
        report = agent.hear_until(Report)
        assert report == Report(rank=0, reason="Entered", message=f"{generation} for the {times}. time, sum 1 of 1")
        if times < 3:
            agent.tell(Leave(generation=generation, reason="a member is lost"))
    assert agent.hear_until(Done) == Done(rank=0, round=0)
    agent.tell(Finished())
    assert rank.process.wait(PATIENCE) == 0


def test_broken_collectives_are_reported_and_given_up_when_nothing_gets_further(
    ranks: list[Rank], store_port: int, tmp_path: Path
) -> None:
    rank = start(ranks, "context.round_started(1); raise PeerLost('connection reset')", tmp_path)
    for attempt in range(10):
        rank.enter(f"1.{attempt}", store_port)
        broken = rank.agent.hear_until(Broken)
        assert broken == Broken(rank=0, generation=f"1.{attempt}", reason="connection reset")
    failing = rank.agent.hear_until(Failing)
    assert isinstance(failing, Failing)
    assert failing.exit_code == ExitCode.LOST_PEER
    assert rank.process.wait(PATIENCE) == ExitCode.LOST_PEER


ENTER_MPI = (
    "from ringtrain.comm.transport import mpi_world; from torch._C._distributed_c10d import HashStore; "
    "mpi_world.enter(context, HashStore(), 0, 1, '127.0.0.1', context.beat); "
    "context.session.report('Entered', 'MPI'); "
)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (WAIT, ExitCode.ENDED_WITH_PEER, "so all ranks start anew: replica 1 is lost"),
        ("context.round_started(1); raise PeerLost('reset')", ExitCode.ENDED_WITH_PEER, "start anew: reset"),
        ("raise PeerLost('reset')", ExitCode.LOST_PEER, "MPI between machines failed before the first round: reset"),
    ],
    ids=["interrupted", "broken", "broken before the first round"],
)
def test_who_has_entered_mpi_ends_with_its_generation(
    ranks: list[Rank], store_port: int, tmp_path: Path, body: str, code: ExitCode, message: str
) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: install ringtrain[mpi]")
    rank = start(ranks, ENTER_MPI + body.replace("while", "\n    while"), tmp_path)
    rank.enter("0.0", store_port)
    while rank.agent.hear_until(Report) != Report(rank=0, reason="Entered", message="MPI"):
        pass
    if body == WAIT:
        rank.agent.tell(Leave(generation="0.0", reason="replica 1 is lost"))
    failing = rank.agent.hear_until(Failing)
    assert isinstance(failing, Failing)
    assert (failing.exit_code, failing.message.endswith(message)) == (code, True)
    assert rank.process.wait(PATIENCE) == code


def test_an_exception_is_told_with_its_place_and_its_traceback_printed(
    ranks: list[Rank], store_port: int, tmp_path: Path
) -> None:
    rank = start(ranks, "{}['loss']", tmp_path)
    rank.enter("0.0", store_port)
    failing = rank.agent.hear_until(Failing)
    assert isinstance(failing, Failing)
    assert (failing.exit_code, failing.message) == (ExitCode.USER_ERROR, "KeyError: 'loss' (<string>:11)")
    assert rank.process.wait(PATIENCE) == ExitCode.USER_ERROR
    assert "Traceback" in rank.log.read_text()


def test_stop_ends_the_process_quietly(ranks: list[Rank], store_port: int, tmp_path: Path) -> None:
    rank = start(ranks, WAIT, tmp_path)
    rank.enter("0.0", store_port)
    rank.agent.hear_until(Report)
    rank.agent.tell(Stop(reason="SIGTERM"))
    assert rank.process.wait(PATIENCE) == ExitCode.PREEMPTED
    assert "Traceback" not in rank.log.read_text()


def test_a_finished_job_is_not_entered(ranks: list[Rank], tmp_path: Path) -> None:
    rank = start(ranks, WAIT, tmp_path)
    rank.agent.hear_until(Ready)
    rank.agent.tell(Finished())
    assert rank.process.wait(PATIENCE) == 0
