"""The membership's rules one by one."""

from datetime import UTC, datetime

import pytest

from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import (
    Beat,
    Broken,
    Committed,
    Done,
    Down,
    Enter,
    Failing,
    Finished,
    Hello,
    Leave,
    Ready,
    Refused,
    Report,
    Restarted,
    ShardsWritten,
    Start,
    Unstarted,
    Up,
)
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress
from ringtrain.coordinator.membership import ProtocolError, step
from ringtrain.coordinator.state import (
    Action,
    AgentConnected,
    AgentLost,
    Close,
    CommitEnded,
    Event,
    OwnGroup,
    Received,
    Send,
    State,
    StoreDown,
    StoreUp,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STORE = StoreUp("127.5.0.1", 8472)


def fresh(replicas: int = 2, procs_per_replica: int = 1) -> State:
    return State(job="job", replicas=replicas, procs_per_replica=procs_per_replica, coordinator_id="id")


def hello(replica: int, *, epoch: int = 0, known: str | None = None, procs: int = 1, job: str = "job") -> Hello:
    ranks = tuple(range(replica * procs, (replica + 1) * procs))
    return Hello(job=job, replica=replica, epoch=epoch, ranks=ranks, known_generation=known)


def run(state: State, *events: Event) -> tuple[State, list[Action]]:
    """The state after `events`, and the actions of the last."""
    actions: tuple[Action, ...] = ()
    for event in events:
        state, actions = step(state, event, NOW)
    return state, list(actions)


def ready(replica: int, after: str | None = None) -> Received:
    """From a replica of one rank, at the connection of the same number."""
    return Received(replica, Ready(rank=replica, after=after))


GATHERED: tuple[Event, ...] = (STORE, AgentConnected(0, hello(0)), AgentConnected(1, hello(1)), ready(0), ready(1))


def training() -> State:
    return run(fresh(), *GATHERED)[0]


def sent(actions: list[Action]) -> list[tuple[int, Down]]:
    return [(action.connection, action.message) for action in actions if isinstance(action, Send)]


def test_a_generation_is_entered_when_the_last_rank_is_ready() -> None:
    state, actions = run(fresh(), *GATHERED)
    enter = Enter(generation="0.0", world_size=2, store_host="127.5.0.1", store_port=8472)
    assert sent(actions) == [(0, enter), (1, enter)]
    assert state.generation == Generation(0, 0)


@pytest.mark.parametrize("missing", range(len(GATHERED)))
def test_nothing_is_entered_while_anything_is_missing(missing: int) -> None:
    state, _ = run(fresh(), *GATHERED[:missing], *GATHERED[missing + 1 :])
    assert state.generation is None


@pytest.mark.parametrize(
    "loss",
    [
        AgentLost(1, "the connection was closed"),
        Received(1, Broken(rank=1, generation="0.0", reason="connection reset")),
        Received(1, Ready(rank=1, after="0.0")),
        Received(1, Failing(rank=1, exit_code=70, message="ValueError")),
        StoreDown("exit code 1"),
        AgentConnected(7, hello(1, epoch=1)),
    ],
    ids=lambda event: type(getattr(event, "message", event)).__name__,
)
def test_any_loss_makes_all_leave_at_once(loss: Event) -> None:
    state, actions = run(training(), loss)
    left = {connection for connection, message in sent(actions) if isinstance(message, Leave)}
    assert state.generation is None
    assert left == ({0} if isinstance(loss, AgentLost | AgentConnected) else {0, 1})


def test_the_loss_of_a_store_in_use_is_told() -> None:
    state, _ = run(training(), StoreDown("exit code -9"))
    assert [(notice.reason, notice.message) for notice in state.notices] == [
        ("StoreLost", "the store of generation 0.0 ended: exit code -9")
    ]
    assert run(fresh(), StoreDown("exit code 1"))[0].notices == ()


def test_a_broken_collective_of_an_earlier_generation_is_old_news() -> None:
    state, actions = run(training(), Received(1, Broken(rank=1, generation="0.7", reason="")))
    assert (state, actions) == (training(), [])


def test_a_replacement_raises_the_epoch_and_attempts_start_anew() -> None:
    state, _ = run(
        training(), AgentLost(1, ""), ready(0, "0.0"), AgentConnected(7, hello(1, epoch=3)), Received(7, Ready(rank=1))
    )
    assert state.generation == Generation(3, 0)


def test_attempts_count_up_within_an_epoch() -> None:
    state, _ = run(training(), Received(1, Ready(rank=1, after="0.0")), ready(0, "0.0"))
    assert state.generation == Generation(0, 1)


def test_a_restarted_coordinator_goes_on_from_what_ranks_have_seen() -> None:
    again = (STORE, AgentConnected(0, hello(0)), AgentConnected(1, hello(1)), ready(0, "2.4"), ready(1, None))
    assert run(fresh(), *again)[0].generation == Generation(2, 5)


def test_a_restarted_coordinator_goes_on_from_what_agents_know() -> None:
    """All ranks may have been started again with it, and know nothing."""
    again = (STORE, AgentConnected(0, hello(0, known="6.3")), AgentConnected(1, hello(1)), ready(0), ready(1))
    assert run(fresh(), *again)[0].generation == Generation(6, 4)


def test_an_agent_that_knows_nonsense_is_no_agent() -> None:
    with pytest.raises(ProtocolError, match="'soon' is not a generation"):
        run(fresh(), AgentConnected(0, hello(0, known="soon")))


def test_an_agent_of_an_older_epoch_is_refused_and_changes_nothing() -> None:
    state, _ = run(fresh(), *GATHERED, AgentConnected(7, hello(1, epoch=2)))
    after, actions = run(state, AgentConnected(8, hello(1, epoch=1)))
    assert after == state
    assert [type(message) for _, message in sent(actions)] == [Refused]
    assert Close(8) in actions


def test_a_newer_agent_replaces_the_older_connection() -> None:
    state, actions = run(training(), AgentConnected(7, hello(1, epoch=1)))
    assert Close(1) in actions
    assert state.members[1].connection == 7
    assert run(state, AgentLost(1, "late"))[0] == state
    assert run(state, ready(1))[0] == state


@pytest.mark.parametrize(
    "stranger",
    [
        hello(0, job="other"),
        hello(2),
        hello(0, procs=2),
        Hello(job="job", replica=-1, epoch=0, ranks=(-1,)),
    ],
)
def test_strangers_are_protocol_errors(stranger: Hello) -> None:
    with pytest.raises(ProtocolError):
        step(fresh(), AgentConnected(0, stranger), NOW)


@pytest.mark.parametrize("message", [Ready(rank=0), Ready(rank=1, after="x"), Beat(rank=9, phase=Phase.TRAINING)])
def test_words_for_other_ranks_and_nonsense_are_protocol_errors(message: Up) -> None:
    with pytest.raises(ProtocolError):
        step(training(), Received(1, message), NOW)


def test_the_job_is_finished_when_all_ranks_are_done() -> None:
    state, actions = run(training(), Received(0, Done(rank=0, round=9)))
    assert (state.finished, actions) == (False, [])
    state, actions = run(state, Received(1, Done(rank=1, round=9)))
    assert state.finished
    assert sent(actions) == [(0, Finished()), (1, Finished())]


def test_the_job_is_not_finished_before_its_last_commit_has_ended() -> None:
    shards = [Received(rank, ShardsWritten(rank=rank, generation="0.0", round=9, files=())) for rank in (0, 1)]
    done = [Received(rank, Done(rank=rank, round=9)) for rank in (0, 1)]
    state, _ = run(training(), *shards, *done)
    assert not state.finished
    state, actions = run(state, CommitEnded(""))
    assert state.finished
    assert [type(message) for _, message in sent(actions)] == [Committed, Committed, Finished, Finished]


def test_a_loss_before_the_end_undoes_done() -> None:
    state, _ = run(training(), Received(0, Done(rank=0, round=9)), AgentLost(1, ""), ready(0, "0.0"))
    state, _ = run(state, AgentConnected(7, hello(1, epoch=1)), Received(7, Ready(rank=1)))
    assert state.generation == Generation(1, 0)
    assert not run(state, Received(7, Done(rank=1, round=9)))[0].finished


def unstarted(replica: int, after: str | None = None) -> Received:
    return Received(replica, Unstarted(rank=replica, after=after))


def session(replica: int) -> Received:
    """Its first sign of life."""
    return Received(replica, Beat(rank=replica, phase=Phase.STARTING))


MET: tuple[Event, ...] = (AgentConnected(0, hello(0)), AgentConnected(1, hello(1)), unstarted(0), unstarted(1))


def started() -> State:
    """Two commands run in 0.0, and whether they open sessions is not known."""
    return run(fresh(), *MET)[0]


def test_commands_are_started_when_all_replicas_are_there() -> None:
    for missing in range(len(MET)):
        assert run(fresh(), *MET[:missing], *MET[missing + 1 :])[0].started is None
    state, actions = run(fresh(), *MET)
    assert sent(actions) == [(connection, Start(generation="0.0", everybody=True)) for connection in (0, 1)]
    assert (state.started, state.generation) == (Generation(0, 0), None)


def test_commands_with_sessions_enter_the_generation_they_were_started_for() -> None:
    state, _ = run(started(), STORE, session(0), session(1), ready(0), ready(1))
    assert (state.started, state.generation) == (None, Generation(0, 0))


@pytest.mark.parametrize(
    ("loss", "blamed", "told"),
    [
        (AgentLost(1, "the connection was closed"), None, {0}),
        (Received(1, Failing(rank=1, exit_code=1, message="")), 1, {0, 1}),
        (Received(1, Broken(rank=1, generation="0.0", reason="SIGTERM")), None, {0, 1}),
        (unstarted(1, "0.0"), None, {0, 1}),
    ],
    ids=lambda value: type(getattr(value, "message", value)).__name__,
)
def test_any_loss_ends_all_commands_without_a_session(loss: Event, blamed: int | None, told: set[int]) -> None:
    state, actions = run(started(), OwnGroup(Generation(0, 0)), loss)
    assert (state.started, state.own_group) == (None, False)
    leaves = [(connection, message) for connection, message in sent(actions) if isinstance(message, Leave)]
    assert {connection for connection, _ in leaves} == told
    assert {(message.generation, message.blamed) for _, message in leaves} == {("0.0", blamed)}


def test_all_commands_are_started_anew_together_and_never_under_the_same_number() -> None:
    state, _ = run(started(), Received(1, Failing(rank=1, exit_code=1, message="")), AgentLost(1, ""))
    state, _ = run(state, AgentConnected(7, hello(1, epoch=1)), Received(7, Unstarted(rank=1)))
    assert state.started is None  # Rank 0 may still run.
    state, actions = run(state, unstarted(0, "0.0"))
    assert state.started == Generation(1, 0)
    assert sent(actions) == [(connection, Start(generation="1.0", everybody=True)) for connection in (0, 7)]
    state, _ = run(state, unstarted(0, "1.0"), Received(7, Unstarted(rank=1, after="1.0")))
    assert state.started == Generation(1, 1)


def test_a_restarted_coordinator_starts_commands_under_a_number_that_none_has_had() -> None:
    state, _ = run(fresh(), *MET[:2], unstarted(0, "3.4"), unstarted(1))
    assert state.started == Generation(3, 5)


def test_only_the_first_failure_is_a_cause() -> None:
    state, _ = run(started(), Received(1, Failing(rank=1, exit_code=137, message="killed")))
    after, actions = run(state, Received(0, Failing(rank=0, exit_code=1, message="connection reset")))
    assert (after, actions) == (state, [])
    assert [notice.message for notice in state.notices] == ["rank 1: killed"]


def test_a_replacement_is_started_while_sessions_of_others_wait() -> None:
    state, _ = run(started(), STORE, session(0), session(1), ready(0), ready(1), AgentLost(1, ""))
    state, actions = run(state, AgentConnected(7, hello(1, epoch=1)), Received(7, Unstarted(rank=1)))
    assert (7, Start(generation="1.0")) in sent(actions)
    # What those say meanwhile takes nothing back.
    state, _ = run(state, ready(0, "0.0"), StoreDown("killed"), STORE)
    assert state.started == Generation(1, 0)
    state, _ = run(state, Received(7, Beat(rank=1, phase=Phase.STARTING)), Received(7, Ready(rank=1)))
    assert state.generation == Generation(1, 0)


def test_commands_that_had_ended_well_are_started_anew_with_the_others() -> None:
    state, _ = run(started(), Received(0, Done(rank=0, round=0)), AgentLost(1, ""), unstarted(0, "0.0"))
    state, _ = run(state, AgentConnected(7, hello(1, epoch=1)), Received(7, Unstarted(rank=1)))
    state, _ = run(state, Received(7, Done(rank=1, round=0)))
    assert not state.finished
    assert run(state, Received(0, Done(rank=0, round=0)))[0].finished


def test_ranks_that_rendezvous_by_themselves_are_known_by_it() -> None:
    assert run(started(), OwnGroup(Generation(0, 0)))[0].own_group
    assert not run(started(), OwnGroup(Generation(0, 7)))[0].own_group
    assert not run(fresh(), OwnGroup(Generation(0, 0)))[0].own_group


def test_commands_without_a_session_finish_without_any_generation() -> None:
    state, _ = run(started(), Received(0, Done(rank=0, round=0)), Received(1, Done(rank=1, round=0)))
    assert state.finished
    assert (state.started, state.generation) == (None, None)


def test_who_comes_after_the_end_hears_of_it() -> None:
    state, _ = run(training(), Received(0, Done(rank=0, round=9)), Received(1, Done(rank=1, round=9)))
    state, actions = run(state, AgentConnected(7, hello(1, epoch=1)))
    assert (7, Finished()) in sent(actions)
    assert run(state, Received(7, Ready(rank=1)))[0].generation is None


def test_reports_and_failures_become_notices_and_only_the_latest_twenty_are_kept() -> None:
    report = Report(rank=0, reason="CheckpointDamaged", message="round 5 skipped")
    state, _ = run(training(), Received(0, report), Received(1, Failing(rank=1, exit_code=70, message="ValueError: x")))
    assert [(notice.sequence, notice.reason, notice.message) for notice in state.notices] == [
        (0, "CheckpointDamaged", "rank 0: round 5 skipped"),
        (1, "RankFailing", "rank 1: ValueError: x"),
    ]
    state, _ = run(state, *[Received(0, report)] * 30)
    assert [notice.sequence for notice in state.notices] == list(range(12, 32))


def test_progress_is_that_of_the_lowest_rank_of_the_current_generation() -> None:
    def beat(rank: int, round: int, generation: str) -> Received:
        progress = Progress(round=round, total_rounds=9)
        return Received(rank, Beat(rank=rank, phase=Phase.TRAINING, generation=generation, progress=progress))

    state, _ = run(training(), beat(1, 3, "0.0"))
    assert state.progress is not None
    assert state.progress.round == 3
    state, _ = run(state, beat(0, 4, "0.0"), beat(1, 5, "0.0"), beat(0, 8, "7.7"))
    assert state.progress is not None
    assert state.progress.round == 4


def restarted(rank: int, number: int = 1) -> Received:
    message = Restarted(
        rank=rank, number=number, exit_code=137, message=f"rank {rank} was killed", round=7, generation="0.0"
    )
    return Received(rank, message)


def test_a_rank_that_is_started_again_breaks_the_generation_and_is_counted() -> None:
    state, actions = run(training(), restarted(1))
    leave = Leave(generation="0.0", reason="rank 1 is started again: rank 1 was killed")
    assert actions == [Send(0, leave), Send(1, leave)]
    assert state.generation is None
    (failure,) = state.rank_failures
    assert (failure.number, failure.replica, failure.epoch, failure.rank, failure.exit_code) == (1, 1, 0, 1, 137)
    assert failure.generation == "0.0"
    # Its agent, and so its replica, is still here: both ask for the next generation.
    state, actions = run(state, ready(1), ready(0, after="0.0"))
    assert [action.message.generation for action in actions if isinstance(action, Send)] == ["0.1", "0.1"]  # type: ignore[union-attr]
    state, _ = run(state, restarted(0))
    assert [(failure.number, failure.rank) for failure in state.rank_failures] == [(1, 1), (1, 0)]


def test_a_restart_that_is_told_again_breaks_nothing() -> None:
    state, _ = run(training(), restarted(1), ready(1), ready(0, after="0.0"))
    again, actions = run(state, restarted(1))
    assert (again, actions) == (state, [])
    state, _ = run(state, AgentLost(1, ""), AgentConnected(1, hello(1, epoch=3)), restarted(1))
    # Those of the pod that is gone are not told any more.
    assert [(failure.number, failure.epoch) for failure in state.rank_failures] == [(1, 3)]


def test_what_a_rank_said_before_it_was_started_again_counts_no_more() -> None:
    waiting, _ = run(fresh(), *GATHERED[:-1])
    assert waiting.ready == {0}
    state, _ = run(waiting, restarted(0), ready(1))
    assert state.generation is None
    assert state.ready == {1}
    done, _ = run(training(), Received(1, Done(rank=1, round=9)))
    state, _ = run(done, restarted(1), Received(0, Done(rank=0, round=9)))
    assert not state.finished


def test_only_the_latest_restarts_are_kept() -> None:
    state = training()
    for number in range(30):
        state, _ = run(state, restarted(1, number))
    assert [failure.number for failure in state.rank_failures] == list(range(10, 30))
