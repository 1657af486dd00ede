"""What an agent decides about commands without a session, one decision at a time."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from ringtrain.agent.rank_process import RankProcess
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import (
    Beat,
    Broken,
    Checked,
    Done,
    Failing,
    Finished,
    JobReported,
    Leave,
    Start,
    Unstarted,
    Up,
)
from ringtrain.contract.phases import Phase
from ringtrain.contract.preflight import Preflight
from ringtrain.contract.report import Fitness, JobReport, TerminationMessage
from trainer.coordinator.hostile_commands import Pod, Process

START = Start(generation="0.0")


class Agent(Pod):
    """Of ranks 0 and 1, connected."""

    def __init__(self, preflight: Preflight | None = None) -> None:
        super().__init__(0, 0, preflight)
        self.connection = 1

    def news(self) -> list[Up]:
        """What it told the coordinator since it was asked last."""
        news = list(self.said)
        self.said.clear()
        return news


@pytest.fixture
def agent() -> Agent:
    """Its ranks run in 0.0."""
    agent = Agent()
    agent.replica.received(START)
    agent.begin()
    return agent


def ended(agent: Agent) -> TerminationMessage:
    assert agent.ended is not None
    return agent.ended


def leave(blamed: int | None = None) -> Leave:
    return Leave(generation="0.0", reason="a loss", blamed=blamed)


def test_nothing_is_started_before_the_coordinator_says_so() -> None:
    agent = Agent()
    agent.replica.start_built_in()
    assert agent.beginning == []
    assert agent.replica.opening()[1:] == [Unstarted(rank=0), Unstarted(rank=1)]
    agent.replica.received(START)
    assert [rank for rank, _ in agent.beginning] == [0, 1]
    assert agent.replica.opening()[1:] == []


def test_when_others_are_lost_all_ranks_are_killed_and_wait(agent: Agent) -> None:
    agent.replica.received(leave())
    assert {process.signal for process in agent.processes.values()} == {9}
    assert agent.news() == []  # They may still run.
    agent.reap()
    assert agent.news() == [Unstarted(rank=0, after="0.0"), Unstarted(rank=1, after="0.0")]
    assert agent.ended is None
    agent.replica.received(Start(generation="0.1"))
    assert [(rank, str(generation)) for rank, generation in agent.beginning] == [(0, "0.1"), (1, "0.1")]


def test_a_rank_that_was_first_to_fail_ends_the_replica(agent: Agent) -> None:
    agent.exit(1, 137)
    (failing,) = agent.news()
    assert isinstance(failing, Failing)
    assert (failing.rank, failing.exit_code) == (1, 137)
    assert agent.ended is None  # The coordinator knows who was first.
    agent.replica.received(leave(blamed=1))
    assert (ended(agent).exit_code, ended(agent).rank) == (137, 1)


def test_a_rank_that_failed_because_another_did_only_waits(agent: Agent) -> None:
    agent.exit(1, 1)
    agent.news()
    agent.replica.received(leave(blamed=3))
    agent.reap()
    assert agent.news() == [Unstarted(rank=1, after="0.0"), Unstarted(rank=0, after="0.0")]
    assert agent.ended is None


def test_without_the_coordinator_nobody_trains(agent: Agent) -> None:
    agent.connection = None
    agent.exit(1, 1)
    agent.replica.coordinator_lost("reset")
    agent.reap()
    assert agent.ended is None
    assert agent.replica.opening()[1:] == [Unstarted(rank=0, after="0.0"), Unstarted(rank=1, after="0.0")]


def test_a_process_that_begins_too_late_is_killed() -> None:
    agent = Agent()
    agent.replica.received(START)
    agent.replica.received(leave())
    assert agent.news() == []
    agent.begin()
    agent.reap()
    assert agent.news() == [Unstarted(rank=0, after="0.0"), Unstarted(rank=1, after="0.0")]


def test_peers_hear_of_a_preemption_before_they_can_feel_it(agent: Agent) -> None:
    agent.exit(0, 0)
    agent.news()
    agent.replica.stop("the replica received SIGTERM", 5.0)
    assert agent.news() == [Broken(rank=1, generation="0.0", reason="the replica received SIGTERM")]
    assert agent.processes[1].signal == 15
    agent.replica.received(leave())
    assert agent.processes[1].signal == 15  # It has its time to end by itself.
    agent.reap()
    assert agent.news() == []
    assert ended(agent).exit_code == ExitCode.PREEMPTED


def waiting(absent: tuple[int, ...] = ()) -> Agent:
    """Its ranks have sessions, and wait for a generation."""
    agent = Agent()
    agent.replica.received(START)
    agent.begin()
    for rank in (0, 1):
        agent.open_session(rank)
    report(agent, absent)
    return agent


def report(agent: Agent, absent: tuple[int, ...] = ()) -> None:
    agent.replica.received(JobReported(report=JobReport(absent_replicas=absent)))


def signals(agent: Agent) -> list[int]:
    return [process.signal for process in agent.processes.values()]


def test_ranks_that_are_to_stop_wait_for_others_that_come_back_in_their_pods() -> None:
    agent = waiting()
    agent.replica.stop("the replica received SIGTERM", 5.0)
    report(agent)
    assert signals(agent) == [0, 0]
    report(agent, absent=(1,))
    assert signals(agent) == [15, 15]


def test_they_do_not_wait_for_another_pod() -> None:
    agent = waiting(absent=(1,))
    agent.replica.stop("the replica received SIGTERM", 5.0)
    assert signals(agent) == [15, 15]


def test_they_do_not_wait_for_another_coordinator() -> None:
    agent = waiting()
    agent.replica.coordinator_lost("reset")
    agent.replica.stop("the replica received SIGTERM", 5.0)
    assert signals(agent) == [15, 15]


def test_they_do_not_wait_for_a_rank_of_their_own_pod() -> None:
    agent = waiting()
    agent.replica.stop("the replica received SIGTERM", 5.0)
    agent.exit(0, 137)
    assert signals(agent) == [15]


def test_a_replica_that_is_to_stop_starts_nothing() -> None:
    agent = Agent()
    agent.replica.stop("the replica received SIGTERM", 5.0)
    agent.replica.received(START)
    assert agent.beginning == []
    assert ended(agent).exit_code == ExitCode.PREEMPTED


def test_the_job_is_done_when_all_its_ranks_have_ended_well(agent: Agent) -> None:
    for rank in (0, 1):
        agent.exit(rank, 0)
    assert agent.news() == [Done(rank=0, round=0), Done(rank=1, round=0)]
    assert agent.ended is None
    agent.replica.received(Finished())
    assert ended(agent).exit_code == ExitCode.DONE
    # The coordinator ends then.
    agent.replica.coordinator_lost("reset")
    assert [record.phase for record in agent.replica.records] == [Phase.DONE] * 2


class CheckProcess(Process):
    """Of rank 1: beats in its check, and ends with `code` after `then`."""

    def __init__(self, code: int, *words: Up, then: Callable[[], None] = lambda: None) -> None:
        super().__init__(1, Generation(0, 0))
        self.code = code
        self.words = words
        self.then = then

    async def run(self, heard: Callable[[Up], None]) -> int:
        heard(Beat(rank=1, phase=Phase.CHECKING))
        for word in self.words:
            heard(word)
        self.then()
        return self.signal + 128 if self.signal else self.code


FIT = Checked(rank=1, fitness=Fitness(product=0.02))
START_OF_ALL = Start(generation="0.0", everybody=True)


@pytest.fixture
def checked() -> Agent:
    """Its machine is to be checked."""
    agent = Agent(Preflight())
    agent.replica.received(START_OF_ALL)
    return agent


def may_follow(agent: Agent, process: CheckProcess) -> bool:
    agent.processes[1] = process
    return asyncio.run(agent.replica.watch_check(cast(RankProcess, process)))


def test_machines_are_checked_before_commands_when_all_can_be(checked: Agent) -> None:
    assert (checked.checking, checked.beginning) == ([0, 1], [])
    others_have_sessions = Agent(Preflight())
    others_have_sessions.replica.received(START)
    assert (others_have_sessions.checking, len(others_have_sessions.beginning)) == ([], 2)
    without = Agent()
    without.replica.received(START_OF_ALL)
    assert (without.checking, len(without.beginning)) == ([], 2)


def test_the_command_follows_a_check_that_was_passed_and_nobody_else_hears_of_it(checked: Agent) -> None:
    assert may_follow(checked, CheckProcess(0, FIT))
    assert checked.replica.is_fit(1)
    record = checked.replica.records[1]
    assert (record.phase, record.pid, record.judged, record.generation) == (Phase.STARTING, None, False, "0.0")
    assert checked.news() == []


def test_an_unfit_machine_ends_the_replica_when_the_coordinator_has_heard_it(checked: Agent) -> None:
    unfit = Failing(rank=1, exit_code=ExitCode.UNFIT, message="unfit: its matrix product is wrong")
    assert not may_follow(checked, CheckProcess(ExitCode.UNFIT, unfit))
    (told,) = checked.news()
    assert isinstance(told, Failing)
    assert told.exit_code == ExitCode.UNFIT
    checked.replica.received(leave(blamed=1))
    assert (ended(checked).exit_code, ended(checked).message) == (86, "rank 1: unfit: its matrix product is wrong")


def test_a_check_that_hangs_is_killed_and_makes_unfit(checked: Agent) -> None:
    hung = CheckProcess(0, then=lambda: checked.replica.kill_hung(1, "has sent no heartbeat"))
    assert not may_follow(checked, hung)
    checked.replica.received(leave(blamed=1))
    assert ended(checked).exit_code == ExitCode.UNFIT


def test_checks_end_with_their_generation(checked: Agent) -> None:
    assert not may_follow(checked, CheckProcess(0, FIT, then=lambda: checked.replica.received(leave())))
    assert Unstarted(rank=1, after="0.0") in checked.news()
    assert checked.ended is None
    checked.checking.clear()
    checked.replica.received(Start(generation="0.1", everybody=True))
    assert checked.checking == [1]
