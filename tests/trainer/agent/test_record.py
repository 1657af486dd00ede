from ringtrain.agent.record import RankRecord
from ringtrain.contract.messages import (
    Beat,
    Checked,
    Done,
    Enter,
    Failing,
    JobReported,
    Leave,
    Ready,
    Start,
    Unstarted,
)
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Fitness, JobReport, Progress

BUILT_IN = RankRecord(rank=2, pid=7, judged=True, beat_at=0.0)
COMMAND = RankRecord(rank=2, pid=7, judged=False, beat_at=0.0)
ENTER = Enter(generation="1.0", world_size=3, store_host="h", store_port=1)


def test_a_beat_is_a_sign_of_life_and_tells_phase_and_progress() -> None:
    progress = Progress(round=4, total_rounds=9)
    record = COMMAND.sent(Beat(rank=2, phase=Phase.TRAINING, progress=progress), 5.0)
    assert (record.judged, record.beat_at, record.phase, record.progress) == (True, 5.0, Phase.TRAINING, progress)
    record = record.sent(Beat(rank=2, phase=Phase.CHECKPOINTING), 6.0)
    assert (record.phase, record.progress) == (Phase.CHECKPOINTING, progress)


def test_ready_stands_until_a_generation_is_entered() -> None:
    ready = Ready(rank=2, after="0.0")
    waiting = BUILT_IN.sent(ready, 1.0)
    assert (waiting.standing, waiting.generation, waiting.phase) == (ready, None, Phase.WAITING)
    inside = waiting.told(ENTER)
    assert (inside.standing, inside.generation) == (None, "1.0")
    assert inside.told(Leave(generation="1.0", reason="")).generation == "1.0"
    assert inside.sent(Ready(rank=2, after="1.0"), 2.0).generation is None


def test_a_command_without_a_session_has_done_its_work_when_it_exits_with_zero() -> None:
    assert COMMAND.ended(0).standing == Done(rank=2, round=0)
    assert COMMAND.ended(1).standing is None


def test_a_rank_with_a_session_has_not() -> None:
    assert COMMAND.sent(Beat(rank=2, phase=Phase.STARTING), 1.0).ended(0).standing is None
    assert BUILT_IN.ended(0).standing is None


LEAVE = Leave(generation="0.0", reason="a loss")
WAITING = RankRecord.of_command(2, 0.0)
STARTED = WAITING.told(Start(generation="0.0"))
RUNNING = STARTED.begun(7, 1.0)


def test_a_command_waits_for_its_start_and_is_then_in_that_generation() -> None:
    assert WAITING.waits_for_start
    assert WAITING.standing == Unstarted(rank=2)
    assert not WAITING.running
    assert not STARTED.waits_for_start
    assert (RUNNING.running, RUNNING.generation, RUNNING.phase) == (True, "0.0", Phase.STARTING)
    assert RUNNING.told(Start(generation="1.0")) == RUNNING


def test_a_command_without_a_session_leaves_by_its_end() -> None:
    leaving = RUNNING.told(LEAVE)
    assert leaving.is_leaving
    assert not leaving.waits_for_start
    again = leaving.ended(137)
    assert again.waits_for_start
    assert not again.is_leaving
    assert again.standing == Unstarted(rank=2, after="0.0")
    assert again.told(Start(generation="0.1")).begun(8, 2.0).ended(0).standing == Done(rank=2, round=0)


def test_a_command_that_has_ended_waits_at_once_when_its_generation_is_over() -> None:
    for code in (0, 1):
        assert RUNNING.ended(code).told(LEAVE).standing == Unstarted(rank=2, after="0.0")
        assert RUNNING.ended(code).told(LEAVE).waits_for_start


def test_a_command_that_is_about_to_begin_leaves_once_it_has() -> None:
    leaving = STARTED.told(LEAVE)
    assert not leaving.waits_for_start
    assert leaving.begun(7, 1.0).is_leaving


def test_other_generations_are_none_of_its_business() -> None:
    assert RUNNING.told(Leave(generation="0.1", reason="")) == RUNNING


def test_a_session_speaks_for_itself() -> None:
    session = RUNNING.sent(Beat(rank=2, phase=Phase.STARTING), 2.0)
    assert session.judged
    assert session.generation is None
    assert session.told(LEAVE) == session
    assert session.sent(Ready(rank=2), 3.0).told(ENTER).generation == "1.0"


def test_a_rank_that_rendezvouses_by_itself_trains_while_it_lives() -> None:
    report = JobReported(report=JobReport(generation="0.0", phase=Phase.TRAINING))
    training = RUNNING.told(report)
    assert training.phase is Phase.TRAINING
    assert training.status(99.0).beat_age == 0
    other = JobReported(report=JobReport(generation="0.1", phase=Phase.TRAINING))
    assert RUNNING.told(other) == RUNNING
    assert BUILT_IN.told(report) == BUILT_IN


def test_who_was_checked_is_so_for_the_life_of_the_pod() -> None:
    fitness = Fitness(product=0.02)
    checked = Checked(rank=2, fitness=fitness)
    assert BUILT_IN.sent(checked, 1.0).ended(137).restarted(2.0).fitness == fitness
    assert BUILT_IN.sent(checked, 1.0).status(2.0).fitness == fitness
    assert RUNNING.sent(checked, 2.0).fitness == fitness
    assert BUILT_IN.fitness is None


def test_last_words_are_kept() -> None:
    failing = Failing(rank=2, exit_code=70, message="ValueError")
    assert BUILT_IN.sent(failing, 1.0).ended(70).failing == failing


def test_status_tells_the_age_of_the_beat_and_no_process_that_has_ended() -> None:
    status = BUILT_IN.status(3.0)
    assert (status.rank, status.pid, status.beat_age, status.phase) == (2, 7, 3.0, Phase.STARTING)
    assert BUILT_IN.ended(0).status(3.0).pid is None
