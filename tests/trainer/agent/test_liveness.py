import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.agent.liveness import STOPPED_SECONDS, silence, verdict
from ringtrain.agent.record import RankRecord
from ringtrain.contract.messages import Beat
from ringtrain.contract.phases import Phase, PhaseTimeouts

TIMEOUTS = PhaseTimeouts(starting=30, compiling=20, training=10, checkpointing=40, restoring=50)
RECORDS = st.builds(
    RankRecord,
    rank=st.integers(0, 7),
    judged=st.booleans(),
    beat_at=st.floats(0, 100),
    phase=st.sampled_from(Phase),
    exit_code=st.sampled_from([None, 0, 1]),
)


def rank(phase: Phase, age: float, *, number: int = 0, judged: bool = True, exit_code: int | None = None) -> RankRecord:
    return RankRecord(rank=number, judged=judged, beat_at=100 - age, phase=phase, exit_code=exit_code)


def test_each_phase_has_its_own_limit() -> None:
    for phase, limit in [(Phase.STARTING, 30), (Phase.COMPILING, 20), (Phase.TRAINING, 10), (Phase.RESTORING, 50)]:
        assert verdict([rank(phase, limit)], TIMEOUTS, 100).live
        assert not verdict([rank(phase, limit + 0.1)], TIMEOUTS, 100).live


def test_the_reason_names_rank_phase_age_and_limit() -> None:
    hung = verdict([rank(Phase.TRAINING, 12.5, number=3)], TIMEOUTS, 100)
    assert hung.reason == "rank 3 has sent no heartbeat for 12.5 s in phase training (its limit is 10 s)"


def test_of_several_the_most_overdue_is_named() -> None:
    found = verdict([rank(Phase.RESTORING, 60, number=1), rank(Phase.TRAINING, 30, number=2)], TIMEOUTS, 100)
    assert found.hung is not None
    assert found.hung.rank == 2


@given(st.floats(0, 1e9))
def test_waiting_and_done_never_fail(age: float) -> None:
    assert verdict([rank(Phase.WAITING, age), rank(Phase.DONE, age)], TIMEOUTS, 100).live


@given(st.floats(0, 1e9))
def test_ended_ranks_and_commands_without_a_session_are_not_judged(age: float) -> None:
    ended = rank(Phase.TRAINING, age, exit_code=0)
    assert verdict([ended, rank(Phase.STARTING, age, judged=False)], TIMEOUTS, 100).live


@given(st.lists(RECORDS, max_size=8), st.floats(100, 200))
def test_the_replica_is_live_when_every_rank_is(records: list[RankRecord], now: float) -> None:
    alone = [verdict([record], TIMEOUTS, now).live for record in records]
    assert verdict(records, TIMEOUTS, now).live == all(alone)


@given(RECORDS, st.floats(100, 200), st.floats(0, 100))
def test_a_beat_makes_a_rank_live_and_silence_never_does(record: RankRecord, now: float, more: float) -> None:
    if not verdict([record], TIMEOUTS, now).live:
        assert not verdict([record], TIMEOUTS, now + more).live
        assert verdict([RankRecord(rank=0, judged=True, beat_at=now, phase=record.phase)], TIMEOUTS, now).live


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.DONE])
def test_a_silent_rank_that_waits_is_the_agents_own_business(phase: Phase) -> None:
    limit = TIMEOUTS.training
    assert silence([rank(phase, limit)], TIMEOUTS, 100).live
    assert silence([rank(phase, limit + 0.1)], TIMEOUTS, 100).reason.startswith("rank 0 has sent no heartbeat for")


def test_a_rank_that_is_stopped_hangs_in_every_phase() -> None:
    for phase in Phase:
        stopped = rank(phase, 0.0).seen(True, 100)
        assert silence([stopped], TIMEOUTS, 100 + STOPPED_SECONDS).live
        found = silence([rank(phase, 0.0), stopped], TIMEOUTS, 100.1 + STOPPED_SECONDS)
        assert found.reason == f"rank 0 has not run for 2.1 s in phase {phase}"
        again = stopped.seen(True, 101).seen(False, 101.5).seen(True, 102)
        assert silence([again], TIMEOUTS, 102 + STOPPED_SECONDS).live


@pytest.mark.parametrize("phase", [Phase.COMPILING, Phase.CHECKPOINTING])
def test_a_pause_of_a_minute_while_compiling_or_saving_is_no_false_alarm(phase: Phase) -> None:
    """Whoever judges, and also in a job that wants to know of hung rounds after 30 s."""
    defaults, eager = PhaseTimeouts(), PhaseTimeouts(training=30)
    record = rank(Phase.TRAINING, 0.0).sent(Beat(rank=0, phase=phase), 100)
    for timeouts in (defaults, eager):
        for now in (100, 130, 160):
            assert verdict([record], timeouts, now).live
            assert silence([record], timeouts, now).live
    back = record.sent(Beat(rank=0, phase=Phase.TRAINING), 160)
    assert silence([back], eager, 190).live
    assert not silence([back], eager, 190.1).live


@given(RECORDS, st.floats(100, 200))
def test_what_the_kubelet_would_end_the_agent_ends_first(record: RankRecord, now: float) -> None:
    if not verdict([record], TIMEOUTS, now).live:
        assert not silence([record], TIMEOUTS, now).live
