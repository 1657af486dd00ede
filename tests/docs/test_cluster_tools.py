"""kubectl and helm take the commands of the documentation: real ones, which find nobody at the other end."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.documented import ROOT, Command, shown
from support.tools import CHART, command, tool

pytestmark = pytest.mark.chart

NOWHERE = "http://127.0.0.1:1"


LOCAL = ("package", "show")
"""helm's verbs that ask no server; what they write stays out of the checkout."""


def run(shown: Command, *more: str, home: Path) -> subprocess.CompletedProcess[str]:
    (home / "charts").symlink_to(ROOT / "charts")
    (home / "examples").symlink_to(ROOT / "examples")
    return subprocess.run(
        [tool(shown.program), *shown.arguments, *more],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("shown", shown("kubectl"), ids=str)
def test_kubectl_gets_as_far_as_asking_the_server(shown: Command, tmp_path: Path) -> None:
    done = run(shown, f"--server={NOWHERE}", home=tmp_path)
    assert not re.search("unknown (command|flag|shorthand flag)", done.stderr)
    assert shown.inline or "refused" in done.stderr, done.stderr


@pytest.mark.parametrize("shown", shown("helm"), ids=str)
def test_helm_gets_as_far_as_asking_the_server(shown: Command, tmp_path: Path) -> None:
    if shown.arguments[0] in LOCAL:
        done = run(shown, home=tmp_path)
        assert done.returncode == 0, done.stderr
        return
    done = run(shown, f"--kube-apiserver={NOWHERE}", home=tmp_path)
    assert not re.search("unknown (command|flag|shorthand flag)", done.stderr)
    assert shown.inline or "cluster unreachable" in done.stderr, done.stderr


@pytest.mark.parametrize("shown", [each for each in shown("helm", inline=False) if "--set" in each.arguments], ids=str)
def test_the_chart_takes_the_values(shown: Command) -> None:
    values = [
        f"--set={value}"
        for option, value in zip(shown.arguments, shown.arguments[1:], strict=False)
        if option == "--set"
    ]
    assert command(tool("helm"), "template", "ringtrain", CHART, *values)
