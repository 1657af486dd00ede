"""The local quick start, command by command, as a reader follows it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.documented import ROOT, shown

PAGE = ROOT / "docs" / "quick-start.md"
COMMANDS = [command for command in shown("ringtrain", inline=False) if command.page == PAGE]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """With an example that is as small as the page's fault, in round 60, allows."""
    program = tmp_path / ".venv" / "bin" / "ringtrain"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\nfrom ringtrain_operator.cli import main\nmain()\n")
    program.chmod(0o755)
    job = (ROOT / "examples" / "gpt-text.yaml").read_text()
    for long, short in (("rounds: 300", "rounds: 70"), ("contextLength: 128", "contextLength: 16")):
        assert long in job
        job = job.replace(long, short)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "gpt-text.yaml").write_text(job)
    return tmp_path


@pytest.mark.distributed
@pytest.mark.timeout(600)
def test_the_local_quick_start_works_as_it_is_written(checkout: Path) -> None:
    outputs = {}
    for command in COMMANDS:
        done = subprocess.run(
            [checkout / ".venv" / "bin" / "ringtrain", *command.arguments],
            cwd=checkout,
            env=os.environ | {"COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        outputs[command.arguments] = done.stdout
    digests = [
        re.findall(r"^digest +(\w+)", output, re.MULTILINE) for words, output in outputs.items() if "run" in words
    ]
    assert len(digests) == 2
    assert digests[0] == digests[1] != []
    assert "round-00000070.gen-" in outputs["checkpoints", "ls", ".ringtrain/gpt-text/checkpoints"]
    assert (checkout / "gpt.safetensors").stat().st_size > 0
    assert (checkout / "my-job.yaml").exists()
