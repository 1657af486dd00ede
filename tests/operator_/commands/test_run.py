import re
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ringtrain_operator.commands.app import app
from ringtrain_operator.local.run_directory import RunDirectory
from ringtrain_operator.plan.observed import JobKey

JOB = """\
apiVersion: ringtrain.io/v1alpha1
kind: TrainingJob
metadata: {name: small}
spec:
  image: x
  replicas: 2
  device: cpu
  command: [python, train.py]
"""


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write(folder: Path, text: str = JOB) -> Path:
    path = folder / "job.yaml"
    path.write_text(text)
    return path


def refused(result: Result) -> str:
    """The error text of a command that refused to work."""
    assert result.exit_code == 2, result.output
    assert not result.stdout
    return result.stderr


def test_version() -> None:
    assert invoke("--version").output == f"ringtrain {version('ringtrain')}\n"


@pytest.mark.parametrize("command", [("validate",), ("run", "-f"), ("submit", "-f")])
@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("replicas: 2", "replicas: [2", r"job\.yaml:\d+:\d+: not valid YAML"),
        ("v1alpha1", "v7", "apiVersion is 'ringtrain.io/v7'"),
        ("TrainingJob", "Job", "no object of kind TrainingJob"),
        ("replicas: 2", "replicas: 0", r"job\.yaml: spec\.replicas: "),
        ("replicas: 2", "replica: 2", r"job\.yaml: spec\.replica: unknown field: did you mean replicas\?"),
        ("name: small", "name: " + "a" * 80, r"metadata\.name"),
        ("name: small", "name: ../../etc", r"metadata\.name"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, command: tuple[str, ...], old: str, new: str, complaint: str) -> None:
    error = refused(invoke(*command, write(tmp_path, JOB.replace(old, new))))
    assert re.search(complaint, error)
    assert all(line.startswith("error: ") for line in error.splitlines())


def test_a_namespace_that_kubernetes_refuses(tmp_path: Path) -> None:
    text = JOB.replace("name: small", "name: small, namespace: Team_A").replace("replicas: 2", "replicas: 0")
    namespace, replicas = refused(invoke("validate", write(tmp_path, text))).splitlines()
    assert "job.yaml: metadata.namespace: must be at most 63 lower-case letters" in namespace
    assert "job.yaml: spec.replicas: " in replicas


@pytest.mark.parametrize("command", [("validate",), ("run", "-f"), ("submit", "-f")])
def test_no_image_is_asked_for_which_a_cluster_may_have(command: tuple[str, ...], tmp_path: Path) -> None:
    text = JOB.replace("  image: x\n", "").replace("replicas: 2", "replicas: 0")
    (error,) = refused(invoke(*command, write(tmp_path, text))).splitlines()
    assert "job.yaml: spec.replicas: " in error


def test_each_problem_has_its_line(tmp_path: Path) -> None:
    text = JOB.replace("replicas: 2", "replicas: 0").replace("device: cpu", "device: tpu")
    assert len(refused(invoke("validate", write(tmp_path, text))).splitlines()) == 2


def test_a_missing_file(tmp_path: Path) -> None:
    assert "No such file or directory" in refused(invoke("run", "-f", tmp_path / "absent.yaml"))


def test_a_job_for_gpus_on_a_machine_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = write(tmp_path, JOB.replace("device: cpu", "device: cuda"))
    assert refused(invoke("run", "-f", path)) == "error: this machine has no CUDA GPU: set spec.device to cpu\n"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert "needs 2 GPUs, one for each rank, and this machine has 1" in refused(invoke("run", "-f", path))


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("explode:rank=1,round=2", "unknown kind 'explode'"),
        ("kill:rank=1", "rank and round are required"),
        ("kill:rank=2,round=1", r"there is no rank 2, the job has ranks 0\.\.1"),
    ],
)
def test_bad_faults_are_refused(tmp_path: Path, fault: str, complaint: str) -> None:
    assert re.search(complaint, refused(invoke("run", "-f", write(tmp_path), "--fault", fault)))


def test_a_directory_that_is_in_use_or_foreign(tmp_path: Path) -> None:
    path, directory = write(tmp_path), tmp_path / "runs"
    with RunDirectory.open(directory / "small", JobKey("default", "small")):
        assert "in use by another ringtrain run" in refused(invoke("run", "-f", path, "--directory", directory))
    (directory / "small" / "photo.jpg").touch()
    assert "no run directory" in refused(invoke("run", "-f", path, "--directory", directory, "--fresh"))
    assert (directory / "small" / "photo.jpg").exists()
