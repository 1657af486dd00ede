from typing import Any

import pytest

from operator_.doctor.builders import facts, job
from ringtrain_operator.doctor.checks.network import check
from ringtrain_operator.doctor.facts import Unknown
from ringtrain_operator.doctor.finding import Level

JOBS = {"podSelector": {"matchExpressions": [{"key": "ringtrain.io/job", "operator": "Exists"}]}}
NOBODY: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def blocked(*policies: dict[str, Any], **changed: Any) -> list[str]:
    """The beginning of each obstacle's description."""
    findings = check(facts(policies=policies, **changed))
    assert all(finding.fix for finding in findings if finding.level is Level.FAIL)
    return [finding.text.partition(":")[0] for finding in findings if finding.level is Level.FAIL]


def test_no_policy() -> None:
    (finding,) = check(facts())
    assert finding.level is Level.OK


def test_nothing_is_allowed() -> None:
    assert blocked(policy("deny", NOBODY)) == [
        "replicas cannot reach each other",
        "replicas cannot reach each other",
        "replicas cannot ask DNS",
        "the operator cannot ask the agents",
    ]


def test_what_jobs_need_is_allowed() -> None:
    own = [{**JOBS}]
    operator = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ringtrain-system"}}}
    needed = {
        **JOBS,
        "ingress": [{"from": own}, {"from": [operator], "ports": [{"port": "metrics"}]}],
        "egress": [{"to": own}, {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]}],
    }
    labels = {"ringtrain-system": {"kubernetes.io/metadata.name": "ringtrain-system"}}
    assert blocked(policy("deny", NOBODY), policy("jobs", needed), namespace_labels=labels) == []


def test_some_ports_are_not_enough() -> None:
    """An all-reduce uses ports that the system chooses."""
    ports = [{"port": 8470}, {"port": 8471}]
    assert "replicas cannot reach each other" in blocked(
        policy("p", {"podSelector": {}, "ingress": [{"ports": ports}]})
    )
    ports = [{"port": 1024, "endPort": 65535}]
    assert blocked(policy("p", {"podSelector": {}, "ingress": [{"ports": ports}]})) == []


def test_a_policy_for_other_pods() -> None:
    assert blocked(policy("db", {"podSelector": {"matchLabels": {"app": "db"}}, "ingress": []})) == []


def test_a_policy_for_pods_of_one_job() -> None:
    mine = {"podSelector": {"matchLabels": {"team": "red"}}, "policyTypes": ["Egress"]}
    red = job("red", template={"metadata": {"labels": {"team": "red"}}})
    assert blocked(policy("red", mine), jobs=(job("blue"),)) == []
    assert blocked(policy("red", mine), jobs=(job("blue"), red)) == [
        "replicas cannot reach each other",
        "replicas cannot ask DNS",
    ]


@pytest.mark.parametrize(
    ("block", "free"),
    [
        ({"cidr": "0.0.0.0/0"}, True),
        ({"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}, False),
        ({"cidr": "10.244.0.0/16"}, True),
        ({"cidr": "192.168.0.0/16"}, False),
    ],
)
def test_blocks_of_addresses(block: dict[str, Any], free: bool) -> None:
    egress = policy("p", {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [{"ipBlock": block}]}]})
    assert (blocked(egress) == []) is free


def test_unknown() -> None:
    (finding,) = check(facts(policies=Unknown("may not list policies")))
    assert finding.level is Level.UNKNOWN


def test_a_job_that_inherits_a_label_is_meant_by_it() -> None:
    deny = policy("deny", {"podSelector": {"matchLabels": {"team": "a"}}, "policyTypes": ["Ingress"]})
    assert blocked(deny, jobs=(job(),)) == []
    began = {"observedGeneration": 1, "inherited": '{"template":{"metadata":{"labels":{"team":"a"}}}}'}
    assert "replicas cannot reach each other" in blocked(deny, jobs=(job(status=began),))
