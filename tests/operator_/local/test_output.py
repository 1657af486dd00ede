import os
import pty
from pathlib import Path

import pytest
from rich.console import Console

from ringtrain_operator.local.output import Output


def test_what_is_written_arrives(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        output = Output(file.fileno())
        Console(file=output.text()).out("Grüße", highlight=False)
        assert (tmp_path / "out").read_text(encoding="utf-8") == "Grüße\n"
        assert not output.reader_gone


def test_a_reader_that_goes_is_noticed_and_breaks_nothing() -> None:
    reading, writing = os.pipe()
    output = Output(writing)
    console = Console(file=output.text())
    console.out("first")
    assert os.read(reading, 100) == b"first\n"
    assert not output.reader_gone
    os.close(reading)
    for _ in range(2):
        console.out("lost")
        assert output.reader_gone
    os.close(writing)


def test_a_full_disk_breaks_nothing() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        os.write(full, b"x")
    output = Output(full)
    Console(file=output.text()).out("lost")
    assert not output.reader_gone
    os.close(full)


def test_a_terminal_is_one() -> None:
    ours, theirs = pty.openpty()
    assert Console(file=Output(theirs).text()).is_terminal
    os.close(theirs)
    os.close(ours)
