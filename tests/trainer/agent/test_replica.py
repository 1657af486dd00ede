"""What an agent decides about commands without a session, one decision at a time."""

import pytest

from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.messages import Broken, Done, Failing, Finished, Leave, Start, Unstarted, Up
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import TerminationMessage
from trainer.coordinator.hostile_commands import Pod

START = Start(generation="0.0")


class Agent(Pod):
    """Of ranks 0 and 1, connected."""

    def __init__(self) -> None:
        super().__init__(0, 0)
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
