"""The examples, as a user finds them."""

import re
import shutil
from pathlib import Path

import pytest

from local.harness import Runs
from ringtrain_operator.local.usage import read_job

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.rglob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_every_example_is_valid(file: Path) -> None:
    read_job(file)


@pytest.mark.distributed
@pytest.mark.timeout(600)
def test_training_code_of_your_own_survives_a_kill(runs: Runs) -> None:
    for file in (EXAMPLES / "custom").iterdir():
        shutil.copy(file, runs.folder)
    run = runs.start_file("job.yaml", "--fault", "kill:rank=1,round=150", name="ring")
    finished = run.finish()
    assert finished.code == 0, finished.output
    assert finished.fact("rounds") == "300 of 300"
    assert finished.fact("restarts") == "1, counted against the budget: 1"
    first, last = re.findall(r"\d+\.\d+", finished.fact("loss"))
    assert float(last) < float(first) / 3
