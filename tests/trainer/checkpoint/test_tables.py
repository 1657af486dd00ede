from datetime import timedelta

import pytest

from ringtrain.checkpoint.tables import age_text, aligned, size_text


def test_columns_are_aligned() -> None:
    assert aligned([("NAME", "N", ""), ("a", "1000", "x"), ("long name", "2", "")]) == [
        "NAME       N",
        "a          1000  x",
        "long name  2",
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (4_938_000_000, "4.9 GB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (10**6, "11d")]
)
def test_ages(seconds: float, text: str) -> None:
    assert age_text(timedelta(seconds=seconds)) == text
