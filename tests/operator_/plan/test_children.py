import pytest

from operator_.plan.builders import KEY, job
from ringtrain_operator.api.spec import ClaimTemplate
from ringtrain_operator.doctor.policies import Labels, Peer, Port, blocking
from ringtrain_operator.plan import children

OPERATOR = {
    "namespaceSelector": {"matchLabels": {"name": "system"}},
    "podSelector": {"matchLabels": {"is": "operator"}},
}
AGENT, COORDINATOR, GLOO = Port("TCP", 8470), Port("TCP", 8471), Port("TCP")
MINE, OTHERS = {"ringtrain.io/job": "gpt"}, {"ringtrain.io/job": "gpt2"}
SYSTEM = {"name": "system"}


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


def test_a_claim_goes_with_the_job_only_where_that_is_wanted() -> None:
    assert "ownerReferences" not in children.claim(job(), ClaimTemplate(storage="5Gi"))["metadata"]
    claim = children.claim(job(), ClaimTemplate(storage="5Gi", when_deleted="Delete"))
    assert claim["metadata"] == children.metadata(job(), "gpt-checkpoints")


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


def reached(port: Port, namespace: str, labels: Labels, namespace_labels: Labels | None = None) -> bool:
    """Whether a pod of the job is reached by one of `labels` in `namespace`."""
    policy = children.network_policy(job(), [OPERATOR])
    return not blocking([policy], "Ingress", KEY.namespace, MINE, Peer(namespace, namespace_labels or {}, labels), port)


@pytest.mark.parametrize("port", [AGENT, COORDINATOR, GLOO, Port("TCP", 8472)])
def test_pods_of_a_job_reach_all_ports_of_each_other_and_others_none(port: Port) -> None:
    assert reached(port, KEY.namespace, MINE)
    assert not reached(port, KEY.namespace, OTHERS)
    assert not reached(port, KEY.namespace, {})
    assert not reached(port, "elsewhere", MINE)


def test_the_operator_reaches_agents_only() -> None:
    assert reached(AGENT, "system", {"is": "operator"}, SYSTEM)
    assert not reached(COORDINATOR, "system", {"is": "operator"}, SYSTEM)
    assert not reached(AGENT, "system", {}, SYSTEM)
    assert not reached(AGENT, "elsewhere", {"is": "operator"})


def test_where_nobody_may_ask_agents_nobody_does() -> None:
    policy = children.network_policy(job(), [])
    assert blocking([policy], "Ingress", KEY.namespace, MINE, Peer("system", SYSTEM, {"is": "operator"}), AGENT)


def test_pods_of_other_jobs_are_left_alone() -> None:
    policy = children.network_policy(job(), [OPERATOR])
    assert not blocking([policy], "Ingress", KEY.namespace, OTHERS, Peer("anywhere", {}, {}), AGENT)
