"""Commands and client against a real API server: what they store, and what they say of what is stored."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from ringtrain_operator.client import NoSuchJob, TrainingJobs
from support.api_server import ADMINISTRATOR, NOBODY
from support.healthy_cluster import HealthyCluster, set_status

pytestmark = pytest.mark.cluster

SPEC: dict[str, Any] = {"image": "x", "replicas": 2, "procsPerReplica": 2, "device": "cpu", "command": ["train"]}
START = [sys.executable, "-c", "import sys; sys.argv[0] = 'ringtrain'; from ringtrain_operator.cli import main; main()"]


class Commands:
    """The command line as a user of the namespace starts it."""

    def __init__(self, invoke: Callable[..., Result], healthy: HealthyCluster, folder: Path) -> None:
        self.kube = healthy.kube
        self.folder = folder
        self._invoke = invoke
        self._server = healthy.server

    def __call__(self, *arguments: str | Path, user: str = ADMINISTRATOR) -> Result:
        return self._invoke(self._server.kubeconfig(user, self.kube.namespace), *arguments)

    def file(self, name: str = "gpt", *, metadata: dict[str, Any] | None = None, **spec: Any) -> Path:
        path = self.folder / f"{name}.yaml"
        document = {
            "apiVersion": "ringtrain.io/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name, **(metadata or {})},
            "spec": SPEC | spec,
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def submit(self, name: str = "gpt", **spec: Any) -> dict[str, Any]:
        """As it is stored then."""
        assert self("submit", "-f", self.file(name, **spec)).exit_code == 0
        found = self.kube.get("trainingjob", name)
        assert found is not None
        return found


@pytest.fixture
def commands(invoke: Callable[..., Result], healthy: HealthyCluster, tmp_path: Path) -> Commands:
    return Commands(invoke, healthy, tmp_path)


def test_submit_makes_changes_and_leaves_alone(commands: Commands) -> None:
    name = f"{commands.kube.namespace}/gpt"
    assert commands("submit", "-f", commands.file(metadata={"labels": {"a": "1"}})).output == f"{name} created\n"
    assert commands("submit", "-f", commands.file(metadata={"labels": {"a": "1"}})).output == f"{name} unchanged\n"
    commands.kube.kubectl("label", "tj", "gpt", "own=2")
    changed = commands("submit", "-f", commands.file(metadata={"labels": {"a": "3"}}, replicas=3, args=["--fast"]))
    assert changed.output == f"{name} changed\n"
    stored = commands.kube.get("tj", "gpt")
    assert stored is not None
    assert stored["metadata"]["labels"] == {"a": "3", "own": "2"}
    assert (stored["spec"]["replicas"], stored["spec"]["args"]) == (3, ["--fast"])
    # What the file does not say any more is not said of the job any more.
    assert "args" not in commands.submit("gpt")["spec"]
    assert json.loads(commands("submit", "-f", commands.file(), "-o", "json").stdout)["kind"] == "TrainingJob"


def test_the_namespace_of_a_file(commands: Commands, healthy: HealthyCluster) -> None:
    file = commands.file(metadata={"namespace": "default"})
    refused = commands("submit", "-f", file, "-n", commands.kube.namespace)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "leave one of them out" in refused.stderr
    assert commands("submit", "-f", file).output == "default/gpt created\n"
    assert commands("delete", "gpt", "-n", "default").output == "default/gpt deleted\n"


def test_status(commands: Commands) -> None:
    assert commands("status").stdout == "there are no TrainingJobs\n"
    commands.submit("b")
    commands.submit("a")
    status = {"observedGeneration": 1, "phase": "Failed", "message": "out of luck", "replicas": 2, "unheard of": 1}
    set_status(commands.kube, "trainingjob", "a", status)
    lines = commands("status").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["NAME", "PHASE"], ["a", "Failed"], ["b", "Pending"]]
    assert f"{commands.kube.namespace}   a" in commands("status", "-A").stdout
    assert "phase     Failed: out of luck" in commands("status", "a").stdout
    assert len(json.loads(commands("status", "-o", "json").stdout)["items"]) == 2
    watched = commands("status", "a", "-w")
    assert (watched.exit_code, len(watched.stdout.splitlines())) == (1, 2)


def test_jobs_that_do_not_exist(commands: Commands) -> None:
    for verb in (
        ("status", "x"),
        ("top", "x"),
        ("logs", "x"),
        ("events", "x"),
        ("suspend", "x"),
        ("restart", "x"),
        ("delete", "x"),
        ("delete", "x", "-o", "json"),
    ):
        result = commands(*verb)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"error: there is no TrainingJob x in namespace {commands.kube.namespace}" in result.stderr


def test_ranks_and_logs_of_a_job_without_pods(commands: Commands) -> None:
    commands.submit()
    assert commands("top", "gpt").stdout == "gpt has no pods\n"
    assert commands("logs", "gpt").stdout == ""
    assert "no line of rank 3" in commands("logs", "gpt", "--rank", "3").stderr
    assert "ranks 0..3, and no rank 4" in commands("logs", "gpt", "--rank", "4").stderr


def suspended(commands: Commands) -> bool:
    return bool((commands.kube.get("tj", "gpt") or {})["spec"].get("suspend"))


def test_suspend_and_resume(commands: Commands) -> None:
    commands.submit()
    name = f"{commands.kube.namespace}/gpt"
    assert commands("suspend", "gpt").output == f"{name} is being suspended\n"
    assert suspended(commands)
    assert "is suspended: `ringtrain resume gpt`" in commands("restart", "gpt").stderr
    assert commands("resume", "gpt").output == f"{name} resumed\n"
    assert not suspended(commands)
    set_status(commands.kube, "trainingjob", "gpt", {"observedGeneration": 3, "phase": "Succeeded"})
    refused = commands("suspend", "gpt")
    assert (refused.exit_code, suspended(commands)) == (2, False)
    assert "has ended (Succeeded): `ringtrain restart gpt`" in refused.stderr


def test_changed_jobs_in_json(commands: Commands) -> None:
    commands.submit()
    told = json.loads(commands("suspend", "gpt", "-o", "json").stdout)
    assert (told["metadata"]["name"], told["spec"]["suspend"]) == ("gpt", True)
    assert not json.loads(commands("resume", "gpt", "-o", "json").stdout)["spec"]["suspend"]
    set_status(commands.kube, "trainingjob", "gpt", {"observedGeneration": 3, "phase": "Failed"})
    restarted = commands("restart", "gpt", "-o", "json")
    assert json.loads(restarted.stdout)["metadata"]["generation"] == 1
    assert "making it anew" in restarted.stderr


def test_restart_waits_until_the_pods_have_ended(commands: Commands) -> None:
    commands.submit()

    def end_the_pods() -> None:
        commands.kube.until("it is suspended", lambda: suspended(commands))
        # What the operator says before it has seen the change does not count.
        set_status(commands.kube, "trainingjob", "gpt", {"observedGeneration": 1, "phase": "Suspended"})
        time.sleep(2)
        assert suspended(commands)
        set_status(commands.kube, "trainingjob", "gpt", {"observedGeneration": 2, "phase": "Suspended"})

    with ThreadPoolExecutor(1) as others:
        operator = others.submit(end_the_pods)
        result = commands("restart", "gpt")
        operator.result()
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, f"{commands.kube.namespace}/gpt restarted")
    assert not suspended(commands)


def test_pods_that_do_not_end(commands: Commands) -> None:
    commands.submit()
    result = commands("restart", "gpt", "--within", "1")
    assert result.exit_code == 1
    assert "it stays suspended" in result.stderr
    assert suspended(commands)


def test_a_job_that_has_ended_is_made_anew(commands: Commands) -> None:
    before = commands.submit(checkpoint={"volume": {"claimTemplate": {"storage": "1Gi"}}})
    commands.kube.kubectl("label", "tj", "gpt", "own=2")
    set_status(commands.kube, "trainingjob", "gpt", {"observedGeneration": 1, "phase": "Failed"})
    result = commands("restart", "gpt")
    assert result.exit_code == 0, result.output
    after = commands.kube.get("tj", "gpt")
    assert after is not None
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], {"own": "2"})
    assert "phase" not in after.get("status", {})


def test_a_deleted_job_is_told_as_it_was(commands: Commands) -> None:
    stored = commands.submit()
    told = json.loads(commands("delete", "gpt", "-o", "json").stdout)
    assert (told["metadata"]["uid"], told["spec"]) == (stored["metadata"]["uid"], stored["spec"])
    assert commands.kube.get("tj", "gpt") is None


def test_a_job_whose_checkpoints_go_with_it_is_not_made_anew(commands: Commands) -> None:
    commands.submit(checkpoint={"volume": {"claimTemplate": {"storage": "1Gi", "whenDeleted": "Delete"}}})
    set_status(commands.kube, "trainingjob", "gpt", {"observedGeneration": 1, "phase": "Failed"})
    result = commands("restart", "gpt")
    assert result.exit_code == 2
    assert "its checkpoints would be deleted" in result.stderr
    assert commands.kube.get("tj", "gpt") is not None


def test_events(commands: Commands) -> None:
    uid = commands.submit()["metadata"]["uid"]
    assert commands("events", "gpt").stdout == "no events about gpt\n"
    about = {"namespace": commands.kube.namespace, "kind": "TrainingJob", "name": "gpt", "uid": uid}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "gpt.1", "namespace": commands.kube.namespace},
        "involvedObject": about,
        "type": "Warning",
        "reason": "Hang",
        "message": "rank 1 hangs",
        "count": 2,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    commands.kube.apply(event)
    (line,) = commands("events", "gpt").stdout.splitlines()[1:]
    assert line.split(maxsplit=1)[1] == "Warning   Hang     TrainingJob/gpt   rank 1 hangs (x2)"
    (document,) = json.loads(commands("events", "gpt", "-o", "json").stdout)
    assert (document["reason"], document["time"]) == ("Hang", "2026-01-01T00:00:00+00:00")


def test_a_user_without_rights(commands: Commands) -> None:
    result = commands("status", user=NOBODY)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot list resource" in result.stderr
    assert "the role `edit`" in result.stderr


def test_a_cluster_without_the_crd(commands: Commands) -> None:
    commands.kube.delete("crd", "trainingjobs.ringtrain.io")
    result = commands("status")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "install Ringtrain's chart" in result.stderr


def test_names_are_completed(commands: Commands) -> None:
    commands.submit("gpt-a")
    commands.submit("gpt-b")
    commands.submit("other")
    commands("status")  # KUBECONFIG

    shell = {"_RINGTRAIN_COMPLETE": "complete_bash", "COMP_WORDS": "ringtrain status gpt", "COMP_CWORD": "2"}
    done = subprocess.run(START, env=os.environ | shell, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["gpt-a", "gpt-b"]


def test_the_client_watches_a_job(commands: Commands) -> None:
    commands.submit()
    commands("status")  # KUBECONFIG

    seen: list[str] = []

    async def watch() -> None:
        async with TrainingJobs.connect() as jobs:
            async for job in jobs.watch("gpt"):
                seen.append(job.status.message)
                if len(seen) == 1:
                    set_status(commands.kube, "trainingjob", "gpt", {"message": "changed"})
                else:
                    await jobs.delete("gpt")

    with pytest.raises(NoSuchJob):
        asyncio.run(watch())
    assert seen == ["", "changed"]
