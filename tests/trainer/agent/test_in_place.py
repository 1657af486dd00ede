import signal

import pytest

from ringtrain.agent.in_place import InPlace
from ringtrain.contract.exit_codes import ExitCode

KILLED = 128 + signal.SIGKILL


def crashes(restarts: InPlace, *rounds: tuple[int, ...]) -> list[bool]:
    """Whether another process follows each one, of which each tells those rounds and then crashes."""
    followed = []
    for told in rounds:
        for round in told:
            restarts = restarts.reached(round)
        followed.append(restarts.may_follow(KILLED))
        restarts = restarts.restarted()
    return followed


def test_three_crashes_without_a_finished_round_are_enough() -> None:
    assert crashes(InPlace(3), (0, 1, 2), (2,), (2,), (), (2,)) == [True, True, True, False, False]


def test_a_finished_round_starts_the_count_anew() -> None:
    assert crashes(InPlace(2), (), (), (5, 6), (6,), (6,)) == [True, True, True, True, False]


def test_going_back_to_a_checkpoint_finishes_no_round() -> None:
    assert crashes(InPlace(1), (9, 10), (5,), (5,)) == [True, False, False]


def test_it_can_be_switched_off() -> None:
    assert crashes(InPlace(0), (0, 1)) == [False]


@pytest.mark.parametrize("code", [KILLED, 128 + signal.SIGSEGV, 1, 2, ExitCode.OUT_OF_MEMORY, ExitCode.HANG])
def test_crashes_and_hangs_are_restarted(code: int) -> None:
    assert InPlace(3).may_follow(code)


@pytest.mark.parametrize(
    "code",
    [
        ExitCode.DONE,
        ExitCode.USER_ERROR,
        ExitCode.BAD_CONFIGURATION,
        ExitCode.PREEMPTED,
        ExitCode.LOST_PEER,
        ExitCode.ENDED_WITH_PEER,
        ExitCode.UNFIT,
        128 + signal.SIGTERM,
    ],
)
def test_what_would_happen_again_or_was_asked_for_is_not(code: int) -> None:
    assert not InPlace(3).may_follow(code)
