import io

from rich.console import Console

from ringtrain_operator.advisor.tables import Sheet, show

SHEET = Sheet("Costs", ("codec", "round"), (("none", "1.00 s"), ("zfp-4 [x]", "0.50 s")), marked=1)


def shown(terminal: bool) -> str:
    file = io.StringIO()
    show(Console(file=file, force_terminal=terminal, width=40, color_system="standard" if terminal else None), SHEET)
    return file.getvalue()


def test_a_pipe_gets_aligned_text() -> None:
    assert shown(terminal=False) == "Costs:\ncodec      round\nnone       1.00 s\nzfp-4 [x]  0.50 s\n"


def test_a_long_line_is_not_broken_in_a_pipe() -> None:
    file = io.StringIO()
    show(Console(file=file, width=20), Sheet("T", ("a", "b"), (("x" * 30, "y" * 30),)))
    assert f"{'x' * 30}  {'y' * 30}\n" in file.getvalue()


def test_a_terminal_gets_a_table_with_the_best_row_set_off() -> None:
    text = shown(terminal=True)
    assert "\u2502" in text
    assert "zfp-4 [x]" in text
    marked = next(line for line in text.splitlines() if "zfp-4" in line)
    other = next(line for line in text.splitlines() if "none" in line)
    assert "\x1b[1;32m" in marked
    assert "\x1b[1;32m" not in other
