import sys
from pathlib import Path
from typing import Any

import pytest

from ringtrain.contract.addresses import Addresses
from ringtrain.contract.environment import BadEnvironment, CheckpointSettings, ReplicaEnvironment, WarmStart
from ringtrain.contract.faults import Fault, FaultKind
from ringtrain_operator.local.container import POD_UID, Machine, localize
from support.environments import replica_environment

ADDRESSES = Addresses("loopback", "127.9")
FAULT = Fault(FaultKind.KILL, rank=1, round=8)


def machine(**changes: Any) -> Machine:
    values: dict[str, Any] = {
        "addresses": ADDRESSES,
        "checkpoints": Path("/here/checkpoints"),
        "base_environment": {"PATH": "/bin", "MODE": "shell", "RINGTRAIN_EPOCH": "9"},
    }
    return Machine(**values | changes)


def manifest(replica: int = 1, **changes: Any) -> dict[str, Any]:
    environment = replica_environment(
        job="small",
        replica=replica,
        replicas=3,
        procs_per_replica=2,
        epoch=4,
        addresses=Addresses("dns", "small.small.default.svc"),
        checkpoint=CheckpointSettings(directory="/checkpoints", every=7, keep=2),
        command=("python", "train.py"),
    )
    env = [{"name": name, "value": value} for name, value in environment.to_env().items()]
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    container = {
        "name": "trainer",
        "command": ["python", "-m", "ringtrain.agent"],
        "env": [*env, {"name": "MODE", "value": "job"}, secret],
        "livenessProbe": {"httpGet": {"path": "/livez", "port": 8470}},
    }
    return {"spec": {"terminationGracePeriodSeconds": 12, "containers": [{"name": "sidecar"}, container | changes]}}


def test_only_what_must_differ_is_replaced() -> None:
    container = localize(manifest(), "uid-1", Path("/here/log"), machine(faults=(FAULT,)))
    assert container.arguments == (sys.executable, "-m", "ringtrain.agent")
    assert container.grace_seconds == 12
    assert container.liveness is not None
    assert container.readiness is None
    replica = ReplicaEnvironment.from_env(container.environment)
    assert replica == container.replica
    assert (replica.replica, replica.epoch, replica.replicas, replica.procs_per_replica) == (1, 4, 3, 2)
    assert replica.addresses == ADDRESSES
    assert replica.checkpoint == CheckpointSettings(directory="/here/checkpoints", every=7, keep=2)
    assert replica.termination_log == "/here/log"
    assert replica.command == (sys.executable, "train.py")
    assert replica.faults == (FAULT,)


def test_the_job_wins_over_the_shell_and_secrets_stay_away() -> None:
    environment = localize(manifest(), "uid-1", Path("/log"), machine()).environment
    assert environment["MODE"] == "job"
    assert environment["PATH"] == "/bin"
    assert environment[POD_UID] == "uid-1"
    assert "TOKEN" not in environment
    assert "CUDA_VISIBLE_DEVICES" not in environment


def test_each_replica_gets_its_own_gpus() -> None:
    gpus = ("0", "1", "2", "3", "4", "5")
    for replica, own in ((0, "0,1"), (2, "4,5")):
        container = localize(manifest(replica), "uid", Path("/log"), machine(gpus=gpus))
        assert container.environment["CUDA_VISIBLE_DEVICES"] == own


def test_a_pod_that_cannot_run_here_is_refused() -> None:
    with pytest.raises(ValueError, match="no container named trainer"):
        localize({"spec": {"containers": [{"name": "sidecar"}]}}, "uid", Path("/log"), machine())
    with pytest.raises(BadEnvironment, match="RINGTRAIN_"):
        localize(manifest(env=[]), "uid", Path("/log"), machine())


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("/checkpoints/first", "/runs/first/checkpoints"),
        ("/restore-from/first", "/runs/first/checkpoints"),
        ("/mnt/first", "/mnt/first"),
    ],
)
def test_another_jobs_checkpoints_lie_in_its_run_directory(told: str, expected: str) -> None:
    settings = CheckpointSettings(directory="/checkpoints/small", warm_start=WarmStart(directory=told))
    variable = {"name": "RINGTRAIN_CHECKPOINT", "value": settings.to_json()}
    made = manifest()
    env = made["spec"]["containers"][1]["env"]
    made["spec"]["containers"][1]["env"] = [variable, *(one for one in env if one["name"] != variable["name"])]
    container = localize(made, "uid-1", Path("/log"), machine(checkpoints=Path("/runs/small/checkpoints")))
    assert container.replica.checkpoint is not None
    assert container.replica.checkpoint.directory == "/runs/small/checkpoints"
    assert container.replica.checkpoint.warm_start == WarmStart(directory=expected)
