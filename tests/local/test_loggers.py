"""A job's numbers in TensorBoard's files, and in a function of the user's."""

import json

import pytest
import yaml

from local.harness import JOB, Runs
from support.event_files import scalars

pytestmark = pytest.mark.distributed

OWN = """
import json
def log(values, round):
    with open("rounds.jsonl", "a") as file:
        file.write(json.dumps([round, values["loss/train"]]) + chr(10))
"""


def test_a_job_logs_every_round_on_rank_0(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    job = yaml.safe_load(JOB.format(name="logged", rounds=6, training_timeout=60, inter="gloo"))
    job["spec"]["trainer"]["loggers"] = ["tensorboard", "own_logger:log"]
    (runs.folder / "logged.yaml").write_text(json.dumps(job))
    (runs.folder / "own_logger.py").write_text(OWN)
    monkeypatch.setenv("PYTHONPATH", str(runs.folder), prepend=":")
    finished = runs.start_file("logged.yaml", name="logged").finish()
    assert finished.code == 0, finished.output
    (file,) = (runs.folder / ".ringtrain" / "logged" / "checkpoints" / "tensorboard").iterdir()
    curves = scalars(file)
    assert [step for step, _ in curves["loss/train"]] == list(range(1, 7))
    assert {"gradient/norm", "speed/tokens_per_second", "communication/exposed_share"} <= curves.keys()
    own = [json.loads(line) for line in next(runs.folder.rglob("rounds.jsonl")).read_text().splitlines()]
    assert [round for round, _ in own] == list(range(1, 7))
    assert [loss for _, loss in own] == pytest.approx([value for _, value in curves["loss/train"]])
