from hypothesis import given
from hypothesis import strategies as st

from ringtrain.agent.beats import INTERVAL, BeatFilter
from ringtrain.contract.messages import Beat
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress


def beat(round: int, phase: Phase = Phase.TRAINING, generation: str = "0.0") -> Beat:
    return Beat(rank=0, phase=phase, generation=generation, progress=Progress(round=round, total_rounds=99))


def test_at_most_one_beat_a_second_passes() -> None:
    beats = BeatFilter()
    assert [beats.passes(beat(index), index / 10) for index in range(21)].count(True) == 3


def test_a_new_phase_or_generation_passes_at_once() -> None:
    beats = BeatFilter()
    assert beats.passes(beat(1), 0.0)
    assert beats.passes(beat(1, Phase.CHECKPOINTING), 0.1)
    assert beats.passes(beat(1, Phase.CHECKPOINTING, "1.0"), 0.2)
    assert not beats.passes(beat(1, Phase.CHECKPOINTING, "1.0"), 0.3)


def test_the_last_beat_held_back_is_released_once() -> None:
    beats = BeatFilter()
    beats.passes(beat(1), 0.0)
    beats.passes(beat(2), 0.2)
    beats.passes(beat(3), 0.4)
    assert beats.release(0.9) is None
    assert beats.release(1.5) == beat(3)
    assert beats.release(9.0) is None


def test_a_beat_held_back_can_be_flushed_once() -> None:
    beats = BeatFilter()
    beats.passes(beat(1), 0.0)
    assert beats.flush() is None
    beats.passes(beat(2), 0.2)
    assert beats.flush() == beat(2)
    assert beats.flush() is None
    assert beats.release(9.0) is None


@given(st.lists(st.tuples(st.floats(0, 0.5), st.booleans()), min_size=1, max_size=60))
def test_the_newest_beat_always_gets_through_in_the_end(steps: list[tuple[float, bool]]) -> None:
    beats, now, passed = BeatFilter(), 0.0, []
    for number, (pause, release) in enumerate(steps):
        now += pause
        if beats.passes(beat(number), now):
            passed.append(beat(number))
        if release and (held := beats.release(now)):
            passed.append(held)
    last = beats.release(now + 2 * INTERVAL)
    passed += [last] if last else []
    assert passed[-1] == beat(len(steps) - 1)
    rounds = [entry.progress.round for entry in passed if entry.progress]
    assert rounds == sorted(set(rounds))
