from typing import Any

import pytest

from operator_.plan.builders import job, spec_with
from ringtrain.contract.environment import CheckpointSettings, ReplicaEnvironment, WarmStart
from ringtrain_operator.api.validation import parse
from ringtrain_operator.plan import pods


def manifest(index: int = 1, epoch: int = 4, **fields: Any) -> dict[str, Any]:
    spec = spec_with(**fields)
    return pods.pod(job(spec), parse("gpt", spec), index, epoch)


def container(of: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in of["spec"]["containers"] if each["name"] == "trainer")
    return found


def environment(of: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container(of)["env"]}


def test_the_name_tells_replica_and_epoch_and_the_host_name_stays() -> None:
    made = manifest()
    assert made["metadata"]["name"] == "gpt-1-4"
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("gpt-1", "gpt")
    labels = made["metadata"]["labels"]
    assert (labels["ringtrain.io/job"], labels["ringtrain.io/replica"], labels["ringtrain.io/epoch"]) == (
        "gpt",
        "1",
        "4",
    )


def test_the_agent_reads_its_environment() -> None:
    made = manifest()
    told = ReplicaEnvironment.from_env(environment(made))
    assert (told.job, told.namespace, told.replica, told.replicas, told.epoch) == ("gpt", "team", 1, 3, 4)
    assert told.world_size == 6
    assert told.addresses.of(2) == "gpt-2.gpt.team.svc"
    assert told.grace_seconds == 30
    assert told.trainer is not None
    assert told.trainer.rounds == 60
    assert container(made)["command"] == ["python", "-m", "ringtrain.agent"]


def test_checkpoints_go_to_a_folder_that_the_trainer_makes() -> None:
    made = manifest(checkpoint={"volume": {"claimName": "disk"}, "every": 7, "keep": 2})
    told = ReplicaEnvironment.from_env(environment(made))
    assert told.checkpoint == CheckpointSettings(directory="/checkpoints/gpt", every=7, keep=2)
    assert {"name": "checkpoints", "persistentVolumeClaim": {"claimName": "disk"}} in made["spec"]["volumes"]
    assert {"name": "checkpoints", "mountPath": "/checkpoints"} in container(made)["volumeMounts"]


def test_the_folder_can_be_chosen_and_the_claim_be_the_jobs_own() -> None:
    volume = {"claimTemplate": {"storage": "1Gi"}, "subPath": "runs/a"}
    made = manifest(checkpoint={"volume": volume})
    told = ReplicaEnvironment.from_env(environment(made))
    assert told.checkpoint is not None
    assert told.checkpoint.directory == "/checkpoints/runs/a"
    assert {"name": "checkpoints", "persistentVolumeClaim": {"claimName": "gpt-checkpoints"}} in made["spec"]["volumes"]


def test_what_is_said_of_checkpoints_reaches_the_trainer() -> None:
    said = {"keepEvery": 100, "memoryEvery": 4, "replicate": "Always", "saveOnPreemption": False}
    made = manifest(checkpoint={"volume": {"claimName": "disk"}} | said)
    told = ReplicaEnvironment.from_env(environment(made)).checkpoint
    assert told is not None
    assert (told.keep_every, told.memory_every, told.replicate, told.save_on_preemption) == (100, 4, "Always", False)
    assert told.warm_start is None


@pytest.mark.parametrize(
    ("other", "directory", "claim"),
    [
        ({"path": "first"}, "/checkpoints/first", None),
        ({"path": "a/b", "claimName": "team"}, "/restore-from/a/b", "team"),
        ({"path": "/mnt/first"}, "/mnt/first", None),
    ],
)
def test_another_jobs_checkpoints_are_mounted_for_reading(
    other: dict[str, str], directory: str, claim: str | None
) -> None:
    made = manifest(checkpoint={"volume": {"claimName": "disk"}, "restoreFrom": other | {"optimizer": True}})
    told = ReplicaEnvironment.from_env(environment(made)).checkpoint
    assert told is not None
    assert told.warm_start == WarmStart(directory=directory, optimizer=True)
    volumes = {volume["name"]: volume for volume in made["spec"]["volumes"]}
    mounts = {mount["name"]: mount for mount in container(made)["volumeMounts"]}
    if claim is None:
        assert "restore-from" not in volumes
        assert "restore-from" not in mounts
    else:
        assert volumes["restore-from"]["persistentVolumeClaim"] == {"claimName": claim, "readOnly": True}
        assert mounts["restore-from"] == {"name": "restore-from", "mountPath": "/restore-from", "readOnly": True}


def test_a_job_without_checkpoints_mounts_none() -> None:
    spec = spec_with()
    del spec["checkpoint"]
    made = pods.pod(job(spec), parse("gpt", spec), 0, 0)
    assert {volume["name"] for volume in made["spec"]["volumes"]} == {"shm", "tmp"}
    assert ReplicaEnvironment.from_env(environment(made)).checkpoint is None


def test_shared_memory_lies_in_memory() -> None:
    volumes = manifest(shmSize="8Gi")["spec"]["volumes"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}} in volumes


def test_a_users_program_is_told_to_the_agent() -> None:
    spec = spec_with(command=["python", "train.py"], args=["--fast"])
    del spec["trainer"]
    made = pods.pod(job(spec), parse("gpt", spec), 0, 0)
    assert ReplicaEnvironment.from_env(environment(made)).command == ("python", "train.py", "--fast")
    assert container(made)["command"] == ["python", "-m", "ringtrain.agent"]


def test_every_rank_gets_a_gpu() -> None:
    assert container(manifest(device="cuda"))["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert container(manifest(device="cuda", gpuResource="example.com/gpu"))["resources"]["limits"] == {
        "example.com/gpu": "2"
    }
    assert container(manifest(device="cpu"))["resources"]["limits"] == {}


def test_limits_that_name_the_gpu_win_and_others_stay() -> None:
    resources = {"limits": {"nvidia.com/gpu": "4", "rdma/hca": "1"}, "requests": {"cpu": "500m"}}
    made = container(manifest(device="cuda", resources=resources))["resources"]
    assert made == {"limits": {"nvidia.com/gpu": "4", "rdma/hca": "1"}, "requests": {"cpu": "500m"}}


def test_the_pod_is_restricted_and_has_no_credentials() -> None:
    made = manifest()
    assert made["spec"]["automountServiceAccountToken"] is False
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True
    assert made["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container(made)["securityContext"]
    assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_probes_ask_the_agent() -> None:
    own = container(manifest())
    assert own["livenessProbe"]["httpGet"] == {"path": "/livez", "port": 8470}
    assert own["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 8470}


def test_the_template_is_merged_in() -> None:
    made = manifest(
        template={
            "metadata": {"labels": {"team": "nlp"}, "annotations": {"prometheus.io/scrape": "false"}},
            "spec": {
                "nodeSelector": {"zone": "a"},
                "terminationGracePeriodSeconds": 90,
                "securityContext": {"runAsUser": 2000},
                "volumes": [{"name": "data", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "trainer",
                        "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                    },
                    {"name": "log-shipper", "image": "shipper:1"},
                ],
            },
        }
    )
    assert made["metadata"]["labels"]["team"] == "nlp"
    assert made["metadata"]["annotations"]["prometheus.io/scrape"] == "false"
    assert made["metadata"]["annotations"]["ringtrain.io/spec-generation"] == "1"
    assert made["spec"]["nodeSelector"] == {"zone": "a"}
    assert made["spec"]["securityContext"]["runAsUser"] == 2000
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True
    assert {volume["name"] for volume in made["spec"]["volumes"]} == {"shm", "tmp", "checkpoints", "data"}
    own = container(made)
    assert own["image"] == "trainer:1"
    assert own["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert environment(made)["NCCL_DEBUG"] == "INFO"
    assert environment(made)["RINGTRAIN_GRACE_SECONDS"] == "90.0"
    assert [each["name"] for each in made["spec"]["containers"]] == ["trainer", "log-shipper"]


def test_the_pull_policy_is_left_to_kubernetes_unless_given() -> None:
    assert "imagePullPolicy" not in container(manifest())
    assert container(manifest(imagePullPolicy="Never"))["imagePullPolicy"] == "Never"


def test_a_pod_that_holds_a_place_is_like_a_replicas_and_trains_nothing() -> None:
    spec = spec_with(resources={"requests": {"cpu": "2"}})
    made = pods.holder(job(spec), parse("gpt", spec), 3, 4, ["bad"])
    assert made["metadata"]["name"] == "gpt-3-4"
    assert made["metadata"]["labels"]["ringtrain.io/holding"] == "true"
    assert not [name for name in made["metadata"]["annotations"] if name.startswith("prometheus")]
    assert container(made)["command"] == ["python", "-m", "ringtrain.hold"]
    assert not container(made).keys() & {"livenessProbe", "readinessProbe", "ports"}
    assert container(made)["resources"] == container(manifest(resources={"requests": {"cpu": "2"}}))["resources"]
    assert "bad" in str(made["spec"]["affinity"])


def test_all_pods_are_scheduled_as_the_job_says() -> None:
    scheduling = {"schedulerName": "fair", "priorityClassName": "high", "topologyKey": "rack"}
    spec = spec_with(scheduling=scheduling)
    parsed = parse("gpt", spec)
    for made in (manifest(scheduling=scheduling), pods.holder(job(spec), parsed, 3, 4)):
        assert (made["spec"]["schedulerName"], made["spec"]["priorityClassName"]) == ("fair", "high")
        (close,) = made["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert close["podAffinityTerm"]["labelSelector"]["matchLabels"]["ringtrain.io/job"] == "gpt"
    assert {"schedulerName", "priorityClassName", "affinity"}.isdisjoint(manifest()["spec"])
