import subprocess
import sys

from ringtrain_operator.local.termination_log import TerminationLog

WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_bytes(sys.argv[2].encode() * int(sys.argv[3]))"


def said(text: str, times: int = 1) -> str:
    """What is read after another process wrote."""
    log = TerminationLog()
    assert log.read() == ""
    for words in ("a longer text that was wrong", text):
        subprocess.run([sys.executable, "-c", WRITE, str(log.path), words, str(times)], check=True, timeout=60)
    read = log.read()
    log.close()
    return read


def test_the_newest_words_of_another_process_are_read() -> None:
    assert said(" stopped\n") == "stopped"


def test_no_more_is_read_than_kubernetes_would() -> None:
    assert said("x", 5000) == "x" * 4096
