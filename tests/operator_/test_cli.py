"""The entry point as a process: what it does before any command runs."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from support.tools import tool

START = [sys.executable, "-c", "from ringtrain_operator.cli import main; main()"]
# Ctrl-C while the commands are imported, at the first import of something slow.
INTERRUPTED = """
import os, signal, sys
class CtrlC:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, CtrlC())
from ringtrain_operator.cli import main
main()
"""


def test_commands_are_found() -> None:
    done = subprocess.run([*START, "--version"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"ringtrain {version('ringtrain')}\n")


def test_an_interrupt_before_the_commands_are_there_says_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "")


@pytest.mark.chart
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("sta",), ["status"]),
        (("checkpoints", "e"), ["export"]),
        (("status", "--name"), ["--namespace"]),
        (("run", "--file", ""), []),
    ],
)
def test_kubectl_completes_its_plugin(typed: tuple[str, ...], offered: list[str], tmp_path: Path) -> None:
    for name, function in (("kubectl-ringtrain", "main"), ("kubectl_complete-ringtrain", "complete")):
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\nfrom ringtrain_operator.cli import {function}\n{function}()\n")
        program.chmod(0o755)
    done = subprocess.run(
        [tool("kubectl"), "__complete", "ringtrain", *typed],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, [*offered, ":0"])
