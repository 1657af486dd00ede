"""The examples, as a user finds them."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from local.harness import Run, Runs
from ringtrain_operator.commands.usage import read_job

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.rglob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_every_example_is_valid(file: Path) -> None:
    read_job(file)


@pytest.mark.distributed
@pytest.mark.timeout(600)
def test_training_code_of_your_own_survives_a_kill(runs: Runs) -> None:
    shutil.copytree(EXAMPLES / "custom", runs.folder / "custom")
    plain = runs.start_file("custom/job.yaml", name="ring").finish()
    assert plain.code == 0, plain.output
    assert float(re.findall(r"\d+\.\d+", plain.fact("loss"))[-1]) < 0.2
    killed = runs.start_file("custom/job.yaml", "--fresh", "--fault", "kill:rank=1,round=150", name="ring").finish()
    assert killed.code == 0, killed.output
    assert killed.fact("rounds") == "300 of 300"
    assert killed.fact("restarts") == "1, counted against the budget: 1"
    assert killed.fact("digest") == plain.fact("digest")


@pytest.mark.distributed
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("file", "name", "faults"),
    [("data-parallel", "llama", ()), ("pipeline", "llama-pipeline", ("--fault", "kill:rank=1,round=30"))],
)
def test_a_model_of_transformers_is_trained_as_parallelism_says(
    runs: Runs, file: str, name: str, faults: tuple[str, ...]
) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: run make setup")
    shutil.copytree(EXAMPLES / "transformers", runs.folder / name)
    finished = runs.start_file(f"{name}/{file}.yaml", *faults, name=name).finish()
    assert finished.code == 0, finished.output
    assert finished.fact("rounds") == "60 of 60"
    restarts = len(faults) // 2
    assert finished.fact("restarts") == f"{restarts}, counted against the budget: {restarts}"
    # Bytes at random have 5.5.
    assert float(re.findall(r"\d+\.\d+", finished.fact("loss"))[-1]) < 3.5


def _torchrun_example(runs: Runs, name: str) -> Path:
    """Two ranks of it as the job `name`, so that their sums know no order: they are the same after a restart."""
    folder = runs.folder / name
    shutil.copytree(EXAMPLES / "torchrun", folder)
    job = (folder / "job.yaml").read_text()
    for line, other in (("  procsPerReplica: 2\n", ""), ("  name: torchrun\n", f"  name: {name}\n")):
        assert line in job
        job = job.replace(line, other)
    (folder / "job.yaml").write_text(job)
    return folder


def _rank(run: Run, rank: int) -> int:
    """The process of a rank."""
    for pid in run.processes():
        with contextlib.suppress(OSError):
            folder = Path("/proc") / str(pid)
            script = b"train.py" in (folder / "cmdline").read_bytes().split(b"\0")
            if script and f"RANK={rank}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                return pid
    raise AssertionError(f"rank {rank} does not run")


@pytest.mark.distributed
@pytest.mark.timeout(900)
def test_a_script_of_torchrun_runs_unchanged_and_goes_on_from_its_own_checkpoint(runs: Runs) -> None:
    folder = _torchrun_example(runs, "unbroken")
    torchrun = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert torchrun.returncode == 0, torchrun.stderr
    unbroken = runs.start_file("unbroken/job.yaml", name="unbroken").finish()
    assert unbroken.code == 0, unbroken.output
    assert unbroken.fact("restarts") == "0, counted against the budget: 0"
    assert f"final digest {unbroken.fact('digest')}" in torchrun.stdout
    assert re.search(r"^\S+ Running$", unbroken.output, re.MULTILINE)

    _torchrun_example(runs, "broken")
    run = runs.start_file("broken/job.yaml", name="broken")
    log = runs.folder / ".ringtrain" / "broken" / "pods" / "broken-0-0" / "log"
    deadline = time.monotonic() + 240
    while not (log.exists() and "step 60/" in log.read_text()):
        assert time.monotonic() < deadline, run.output
        time.sleep(0.02)
    os.kill(_rank(run, 1), signal.SIGKILL)
    broken = run.finish()
    assert broken.code == 0, broken.output
    assert broken.fact("restarts") == "1, counted against the budget: 1"
    assert "rank 1 broken-1-0 Signal9 (exit code 137)" in broken.fact("failure")
    first, again = re.findall(r"begins with step (\d+)", log.read_text())
    assert first == "1"
    assert int(again) > 60
    assert broken.fact("digest") == unbroken.fact("digest")
