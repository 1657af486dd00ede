"""Where credentials are looked for, and what is said when there are none."""

import subprocess
import sys
from pathlib import Path

import pytest

from ringtrain_operator.cluster.credentials import current_namespace

START = [sys.executable, "-c", "from ringtrain_operator.cli import main; main()", "status"]
CONFIG = (
    "{apiVersion: v1, kind: Config, current-context: a, users: [{name: u, user: {}}], "
    "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], "
    "contexts: [{name: a, context: {cluster: c, user: u, namespace: team-a}}, "
    "{name: b, context: {cluster: c, user: u}}]}"
)


def test_a_file_that_is_missing_is_named_in_one_line(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(START, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (3, "")
    told = f"error: no cluster is configured (there is no file {tmp_path}/.kube/config): set KUBECONFIG"
    assert done.stderr.startswith(told)
    assert len(done.stderr.splitlines()) == 1


def test_of_several_files_one_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'config'}:{tmp_path / 'missing'}")
    assert current_namespace() == "team-a"
    assert current_namespace("b") == "default"
