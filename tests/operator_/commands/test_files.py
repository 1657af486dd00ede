import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from ringtrain_operator.commands.app import app
from ringtrain_operator.commands.usage import read_job


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    "options", [(), ("--device", "cpu", "--replicas", "3"), ("--command", "python train.py --fast"), ("--image", "i:1")]
)
def test_a_first_job_is_valid(options: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    result = invoke("init", "gpt", "-f", path, *options)
    assert result.exit_code == 0, result.output
    job, _ = read_job(path)
    assert job.name == "gpt"
    assert invoke("validate", path).output == f"{path}: valid\n"


def test_what_is_asked_for(tmp_path: Path) -> None:
    text = invoke("init", "gpt", "--device", "cpu", "--replicas", "3", "--command", "python train.py").stdout
    spec = yaml.safe_load(text)["spec"]
    assert (spec["replicas"], spec["device"], spec["command"]) == (3, "cpu", ["python", "train.py"])
    assert "trainer" not in spec


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("mine")
    result = invoke("init", "gpt", "-f", path)
    assert (result.exit_code, path.read_text()) == (2, "mine")
    assert "--force" in result.stderr
    assert invoke("init", "gpt", "-f", path, "--force").exit_code == 0
    assert path.read_text() != "mine"


def test_a_bad_name_or_folder(tmp_path: Path) -> None:
    assert "metadata.name" in invoke("init", "Not_A_Name").stderr
    result = invoke("init", "gpt", "-f", tmp_path / "absent" / "job.yaml")
    assert result.exit_code == 2
    assert "No such file" in result.stderr


def test_all_that_is_wrong_with_several_files(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    invoke("init", "gpt", "-f", good)
    bad.write_text(re.sub("replicas: 2", "replicas: 0", good.read_text()))
    result = invoke("validate", good, bad)
    assert (result.exit_code, result.stdout) == (2, f"{good}: valid\n")
    assert result.stderr.startswith(f"error: {bad}: spec.replicas: ")
    result = invoke("validate", good, bad, "-o", "json")
    assert result.exit_code == 2
    first, second = json.loads(result.stdout)
    assert first == {"file": str(good), "problems": []}
    assert len(second["problems"]) == 1
