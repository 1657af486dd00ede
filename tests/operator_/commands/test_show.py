from datetime import UTC, datetime, timedelta

import pytest

from ringtrain_operator.commands.show import Screen, Sheet, age, pairs

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172799, "47h"), (172800, "2d")],
)
def test_ages_as_kubectl_shows_them(seconds: int, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_an_unknown_age() -> None:
    assert age(None, NOW) == ""


def test_pairs() -> None:
    assert pairs({"a": "1", "left out": "", "long": "2"}) == "a     1\nlong  2"
    assert pairs({}) == ""


def test_a_table_in_a_pipe_is_for_grep(capsys: pytest.CaptureFixture[str]) -> None:
    sheet = Sheet(("NAME", "MESSAGE"), [("a", "long " * 60 + "end"), ("b[red]", "")])
    Screen().show("before", sheet, sheet.headless())
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["before", "NAME     MESSAGE"]
    assert lines[2].startswith("a        long long")
    assert lines[2].endswith("end")
    assert lines[3] == "b[red]"
    assert lines[4] == lines[2]
