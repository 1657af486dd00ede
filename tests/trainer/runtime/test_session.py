"""The rank's end of the socket; the test is the agent."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from ringtrain.contract.addresses import Addresses
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import (
    Beat,
    Broken,
    Committed,
    Done,
    Enter,
    Failing,
    Finished,
    Leave,
    Ready,
    Report,
    SaveFailed,
    ShardFile,
    ShardsWritten,
    Stop,
)
from ringtrain.contract.phases import Phase, PhaseTimeouts
from ringtrain.contract.report import Progress
from ringtrain.runtime.errors import Interrupted, JobFinished, NoSession, Preempted
from ringtrain.runtime.session import Session
from support.agent_end import AgentEnd
from support.environments import replica_environment

ENVIRONMENT = replica_environment(
    replica=1,
    replicas=3,
    procs_per_replica=2,
    addresses=Addresses("loopback", "127.3"),
    timeouts=PhaseTimeouts(checkpointing=0.5),
)
RANK = 3
GENERATION = Generation(0, 0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ends(clock: Clock) -> Iterator[tuple[Session, AgentEnd]]:
    ours, theirs = socket.socketpair()
    session, agent = Session(ENVIRONMENT, 1, theirs, clock), AgentEnd(ours)
    yield session, agent
    session.close()
    agent.close()


def enter(generation: str) -> Enter:
    return Enter(generation=generation, world_size=6, store_host="127.3.0.1", store_port=8472)


def entered(ends: tuple[Session, AgentEnd], generation: str = "0.0") -> None:
    session, agent = ends
    agent.tell(enter(generation))
    assert session.next_generation().generation == generation


def test_opening_a_session_is_a_heartbeat(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    assert (session.rank, session.local_rank, session.world_size) == (3, 1, 6)
    assert agent.hear() == Beat(rank=RANK, phase=Phase.STARTING)


def test_beats_are_limited_but_news_goes_at_once(ends: tuple[Session, AgentEnd], clock: Clock) -> None:
    session, agent = ends
    entered(ends)
    agent.pending()
    progress = Progress(round=1, total_rounds=9)
    for _ in range(100):
        session.beat(Phase.TRAINING)
    session.beat(Phase.TRAINING, progress)
    session.beat(Phase.TRAINING, progress)
    session.beat(Phase.CHECKPOINTING)
    clock.now += 1
    session.poll()
    assert agent.pending() == [
        Beat(rank=RANK, phase=Phase.TRAINING, generation="0.0"),
        Beat(rank=RANK, phase=Phase.TRAINING, generation="0.0", progress=progress),
        Beat(rank=RANK, phase=Phase.CHECKPOINTING, generation="0.0", progress=progress),
        Beat(rank=RANK, phase=Phase.CHECKPOINTING, generation="0.0", progress=progress),
    ]


def test_ready_says_which_generation_was_left(ends: tuple[Session, AgentEnd]) -> None:
    _, agent = ends
    entered(ends, "0.0")
    assert agent.hear_until(Ready) == Ready(rank=RANK)
    entered(ends, "1.0")
    assert agent.hear_until(Ready) == Ready(rank=RANK, after="0.0")


def test_waiting_beats_and_ignores_generations_that_were_left(ends: tuple[Session, AgentEnd], clock: Clock) -> None:
    session, agent = ends
    entered(ends, "2.3")
    agent.pending()
    clock.now += 1
    found: list[Enter] = []
    waiter = threading.Thread(target=lambda: found.append(session.next_generation()))
    waiter.start()
    assert agent.hear_until(Beat) == Beat(rank=RANK, phase=Phase.WAITING)
    agent.tell(enter("2.3"), enter("2.1"), enter("1.9"))
    waiter.join(0.3)
    assert waiter.is_alive()
    agent.tell(enter("2.4"))
    waiter.join(60)
    assert found == [enter("2.4")]


def test_a_left_generation_interrupts_every_beat_until_the_next(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    entered(ends)
    session.beat(Phase.TRAINING)
    agent.tell(Leave(generation="0.0", reason="replica 2 is lost"))
    for _ in range(2):
        with pytest.raises(Interrupted, match="replica 2 is lost") as caught:
            session.poll()
        assert (caught.value.generation, caught.value.reason) == ("0.0", "replica 2 is lost")
    entered(ends, "1.0")
    session.poll()


def test_leaving_an_older_generation_is_old_news(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    entered(ends, "1.0")
    agent.tell(Leave(generation="0.7", reason="late"))
    session.poll()


def test_a_generation_that_broke_before_it_began_is_entered_and_left(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    agent.tell(enter("0.0"), Leave(generation="0.0", reason="broken"))
    assert session.next_generation().generation == "0.0"
    with pytest.raises(Interrupted):
        session.poll()


@pytest.mark.parametrize("wait", ["poll", "next_generation", "wait_finished"])
def test_stop_preempts_every_wait(ends: tuple[Session, AgentEnd], wait: str) -> None:
    session, agent = ends
    entered(ends)
    agent.tell(Stop(reason="SIGTERM"))
    with pytest.raises(Preempted, match="SIGTERM"):
        getattr(session, wait)()


def test_a_rank_that_saves_first_goes_on_until_all_is_saved(ends: tuple[Session, AgentEnd], clock: Clock) -> None:
    session, agent = ends
    entered(ends)
    session.saves_before_stop = True
    agent.tell(Stop(reason="SIGTERM", seconds=5))
    session.poll()
    assert session.asked_to_stop
    with pytest.raises(Preempted, match="SIGTERM"):
        session.stop_if_asked()


def test_a_rank_that_saves_first_has_no_more_time_than_that(ends: tuple[Session, AgentEnd], clock: Clock) -> None:
    session, agent = ends
    entered(ends)
    session.saves_before_stop = True
    agent.tell(Stop(reason="SIGTERM", seconds=5))
    clock.now += 4
    session.poll()
    clock.now += 5
    with pytest.raises(Preempted):
        session.poll()


def test_a_rank_with_something_to_save_waits_for_others(ends: tuple[Session, AgentEnd], clock: Clock) -> None:
    session, agent = ends
    session.saves_before_stop = True
    agent.tell(Stop(reason="SIGTERM", seconds=5), enter("0.1"))
    assert session.next_generation().generation == "0.1"
    clock.now += 6
    with pytest.raises(Preempted):
        session.next_generation()


def test_nobody_is_stopped_who_was_not_asked(ends: tuple[Session, AgentEnd]) -> None:
    session, _ = ends
    assert not session.asked_to_stop
    session.stop_if_asked()


def test_a_commit_is_told_once(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    entered(ends)
    file = ShardFile(path="rank-3.safetensors", size=7, sha256="ab")
    session.shards_written(GENERATION, 5, [file], "digest")
    written = ShardsWritten(rank=RANK, generation="0.0", round=5, files=(file,), layout="digest")
    assert agent.hear_until(ShardsWritten) == written
    agent.tell(
        Committed(generation="9.9", round=5, error="of another generation"),
        Committed(generation="0.0", round=4, error="of another round"),
    )
    session.poll()
    assert session.committed(GENERATION, 5) is None
    agent.tell(Committed(generation="0.0", round=5))
    session.poll()
    assert [session.committed(GENERATION, 5) for _ in range(2)] == ["", None]


def test_a_commit_that_was_given_up_says_why(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    entered(ends)
    session.save_failed(GENERATION, 5, "no space")
    assert agent.hear_until(SaveFailed) == SaveFailed(rank=RANK, generation="0.0", round=5, reason="no space")
    agent.tell(Committed(generation="0.0", round=5, error="rank 3: no space"))
    session.poll()
    assert session.committed(GENERATION, 5) == "rank 3: no space"


def test_what_a_former_generation_still_wrote_is_of_that_generation(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    entered(ends)
    entered(ends, "0.1")
    session.shards_written(GENERATION, 5, [], "")
    assert agent.hear_until(ShardsWritten) == ShardsWritten(rank=RANK, generation="0.0", round=5, files=())


def test_a_loss_interrupts_the_wait_for_the_end(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    entered(ends)
    agent.tell(Leave(generation="0.0", reason="lost"))
    with pytest.raises(Interrupted):
        session.wait_finished()


def test_the_end(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    entered(ends)
    session.done(9)
    assert agent.hear_until(Done) == Done(rank=RANK, round=9)
    agent.tell(Finished())
    session.wait_finished()
    with pytest.raises(JobFinished):
        session.next_generation()


def test_what_else_is_said(ends: tuple[Session, AgentEnd]) -> None:
    session, agent = ends
    entered(ends)
    session.broken("connection reset")
    assert agent.hear_until(Broken) == Broken(rank=RANK, generation="0.0", reason="connection reset")
    session.report("CheckpointDamaged", "round 5 is skipped")
    assert agent.hear_until(Report) == Report(rank=RANK, reason="CheckpointDamaged", message="round 5 is skipped")
    session.failing(70, "ValueError", 4)
    assert agent.hear_until(Failing) == Failing(rank=RANK, exit_code=70, message="ValueError", round=4)


def test_an_agent_that_does_not_read_blocks_nothing_and_loses_nothing(
    ends: tuple[Session, AgentEnd], clock: Clock
) -> None:
    session, agent = ends
    entered(ends)
    for number in range(5000):
        clock.now += 1
        session.beat(Phase.TRAINING)
        if number % 100 == 0:
            session.report("Counted", "x" * 2000 + str(number))
    counted: list[str] = []
    while len(counted) < 50:
        message = agent.hear()
        session.poll()
        if isinstance(message, Report):
            counted.append(message.message.lstrip("x"))
    assert counted == [str(number) for number in range(0, 5000, 100)]


def test_outside_a_replica_the_error_says_how_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RINGTRAIN_RANK_FD", raising=False)
    with pytest.raises(NoSession, match="ringtrain run -f"):
        Session.from_environment()


_CHILD = """
import os, time
from ringtrain.runtime.session import Session
session = Session.from_environment()
assert "RINGTRAIN_RANK_FD" not in os.environ
while True:
    session.poll()
    time.sleep(0.01)
"""


def test_a_rank_dies_with_its_agent() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            env={**os.environ, **ENVIRONMENT.to_env(), "LOCAL_RANK": "1", "RINGTRAIN_RANK_FD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
        )
    try:
        agent = AgentEnd(ours)
        assert agent.hear() == Beat(rank=RANK, phase=Phase.STARTING)
        agent.close()
        assert child.wait(60) == ExitCode.LOST_PEER
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            child.wait()
