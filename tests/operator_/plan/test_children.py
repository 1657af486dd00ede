from operator_.plan.builders import job
from ringtrain_operator.api.spec import ClaimTemplate
from ringtrain_operator.plan import children


def test_the_service_is_headless_and_finds_pods_before_they_are_ready() -> None:
    service = children.service(job())
    assert service["metadata"]["name"] == "gpt"
    spec = service["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert spec["selector"] == {"ringtrain.io/job": "gpt"}
    assert {port["name"]: port["port"] for port in spec["ports"]} == {
        "metrics": 8470,
        "coordinator": 8471,
        "store": 8472,
    }


def test_the_claim_is_the_jobs_own() -> None:
    claim = children.claim(job(), ClaimTemplate(storage="5Gi", storage_class_name="fast"))
    assert claim["metadata"]["name"] == "gpt-checkpoints"
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "fast",
    }


def test_the_clusters_default_class_is_asked_for_by_silence() -> None:
    assert "storageClassName" not in children.claim(job(), ClaimTemplate(storage="5Gi"))["spec"]


def test_children_go_with_their_job() -> None:
    (owner,) = children.metadata(job(), "x")["ownerReferences"]
    assert owner == {
        "apiVersion": "ringtrain.io/v1alpha1",
        "kind": "TrainingJob",
        "name": "gpt",
        "uid": "job-uid",
        "controller": True,
        "blockOwnerDeletion": False,
    }
