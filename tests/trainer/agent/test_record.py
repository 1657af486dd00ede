from ringtrain.agent.record import RankRecord
from ringtrain.contract.messages import Beat, Done, Enter, Failing, Leave, Ready
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress

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


def test_last_words_are_kept() -> None:
    failing = Failing(rank=2, exit_code=70, message="ValueError")
    assert BUILT_IN.sent(failing, 1.0).ended(70).failing == failing


def test_status_tells_the_age_of_the_beat_and_no_process_that_has_ended() -> None:
    status = BUILT_IN.status(3.0)
    assert (status.rank, status.pid, status.beat_age, status.phase) == (2, 7, 3.0, Phase.STARTING)
    assert BUILT_IN.ended(0).status(3.0).pid is None
