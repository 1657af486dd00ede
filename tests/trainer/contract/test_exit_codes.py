import pytest

from ringtrain.contract.exit_codes import NEVER_RESTARTED, NOT_COUNTED, ExitCode, reason


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, "Done"),
        (70, "UserError"),
        (82, "Hang"),
        (83, "OutOfMemory"),
        (137, "Signal9"),
        (143, "Signal15"),
        (1, "Crashed"),
        (255, "Crashed"),
    ],
)
def test_reasons(code: int, expected: str) -> None:
    assert reason(code) == expected


def test_no_code_is_taken_by_interpreters_shells_or_signals() -> None:
    assert all(code == 0 or 2 < code < 126 for code in ExitCode)


def test_no_code_is_both_fatal_and_free() -> None:
    assert not NEVER_RESTARTED & NOT_COUNTED
