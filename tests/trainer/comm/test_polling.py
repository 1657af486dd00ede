import threading
import weakref

import pytest

from ringtrain.comm.polling import poll_until, run_polled


class Left(Exception):
    pass


def leave() -> None:
    raise Left


def stay() -> None:
    pass


def test_a_wait_polls_even_if_there_is_nothing_to_wait_for() -> None:
    with pytest.raises(Left):
        poll_until(lambda: True, leave)


def test_a_wait_ends() -> None:
    answers = iter([False, False, True])
    poll_until(lambda: next(answers), stay)
    assert next(answers, None) is None


def test_a_polled_call_returns_its_result() -> None:
    assert run_polled(lambda _: 3, stay, "test") == 3


def test_a_polled_call_raises_its_own_error() -> None:
    def fail(_: threading.Event) -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        run_polled(fail, stay, "test")


class Result:
    pass


def test_an_abandoned_call_keeps_nothing_alive() -> None:
    made: list[weakref.ref[Result]] = []
    threads = set(threading.enumerate())

    def make(abandoned: threading.Event) -> Result:
        assert abandoned.wait(60)
        result = Result()
        made.append(weakref.ref(result))
        return result

    with pytest.raises(Left) as caught:
        run_polled(make, leave, "test")
    (thread,) = set(threading.enumerate()) - threads
    thread.join(60)
    # The exception's traceback still holds the frames of the wait.
    assert caught.value.__traceback__ is not None
    assert made[0]() is None
