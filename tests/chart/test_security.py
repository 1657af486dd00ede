"""The operator runs restricted, and may do what it does and nothing else."""

import json
from typing import Any

import pytest

from ringtrain_operator.doctor.policies import selects
from support.manifests import Render, of_kind, only

pytestmark = pytest.mark.chart

Rule = tuple[str, str, str]

LEASE: set[Rule] = {("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update")}
"""In the operator's own namespace."""
CLUSTERWIDE: set[Rule] = {("", "nodes", verb) for verb in ("get", "list", "watch")}
NAMESPACED: set[Rule] = {
    *(("ringtrain.io", "trainingjobs", verb) for verb in ("get", "list", "watch", "delete")),
    ("ringtrain.io", "trainingjobs/status", "update"),
    ("", "namespaces", "get"),
    *(("", "pods", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
    *(
        ("", resource, verb)
        for resource in ("services", "persistentvolumeclaims")
        for verb in ("get", "list", "watch", "create")
    ),
    *(("networking.k8s.io", "networkpolicies", verb) for verb in ("get", "list", "watch", "create")),
    *(
        (group, "podgroups", verb)
        for group in ("scheduling.volcano.sh", "scheduling.x-k8s.io")
        for verb in ("create", "patch")
    ),
    *(("", "events", verb) for verb in ("create", "patch")),
}


def rules(role: dict[str, Any]) -> set[Rule]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def operators(roles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [role for role in roles if not role["metadata"]["name"].endswith(("-view", "-edit"))]


def test_pod_is_restricted(render: Render) -> None:
    spec = only(render(), "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert [set(volume) for volume in spec["volumes"]] == [{"name", "emptyDir"}]


def test_pod_is_probed_and_replaced_one_at_a_time(render: Render) -> None:
    deployment = only(render(), "Deployment")["spec"]
    (container,) = deployment["template"]["spec"]["containers"]

    assert deployment["strategy"] == {"type": "Recreate"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"health": 8080, "metrics": 9090}


def test_two_replicas_are_kept_apart_and_never_gone_together(render: Render) -> None:
    manifests = render("--set", "replicas=2,leaderElection.leaseSeconds=30")
    deployment = only(manifests, "Deployment")["spec"]
    pod = deployment["template"]["spec"]
    env = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}

    assert (deployment["replicas"], deployment["strategy"]) == (2, {"type": "RollingUpdate"})
    assert env["RINGTRAIN_LEASE"] == "ringtrain-system/rt-ringtrain"
    assert env["RINGTRAIN_LEASE_SECONDS"] == "30"
    (spread,) = pod["topologySpreadConstraints"]
    budget = only(manifests, "PodDisruptionBudget")["spec"]
    for selector in (spread["labelSelector"], budget["selector"]):
        assert selector == deployment["selector"]
    assert budget["maxUnavailable"] == 1


def test_the_lease_is_the_only_one_that_can_be_changed(render: Render) -> None:
    (role,) = of_kind(render(), "Role")

    assert rules(role) == LEASE
    assert role["metadata"]["namespace"] == "ringtrain-system"
    for rule in role["rules"]:
        assert rule["verbs"] == ["create"] or rule["resourceNames"] == ["rt-ringtrain"]


def test_rights_for_all_namespaces(render: Render) -> None:
    (role,) = operators(of_kind(render(), "ClusterRole"))

    assert rules(role) == CLUSTERWIDE | NAMESPACED


def test_no_right_outside_of_namespaces(render: Render) -> None:
    manifests = render("--set", "watchNamespaces={a},watchNodes=false,rbac.aggregate=false")
    (container,) = only(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]

    assert not [manifest for manifest in manifests if manifest["kind"].startswith("ClusterRole")]
    assert {"name": "RINGTRAIN_WATCH_NODES", "value": "false"} in container["env"]


def test_rights_in_named_namespaces_only(render: Render) -> None:
    manifests = render("--set", "watchNamespaces={a,b}")
    (role,) = operators(of_kind(manifests, "ClusterRole"))

    assert rules(role) == CLUSTERWIDE
    assert {role["metadata"]["namespace"]: rules(role) for role in of_kind(manifests, "Role")} == {
        "a": NAMESPACED,
        "b": NAMESPACED,
        "ringtrain-system": LEASE,
    }
    (container,) = only(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "RINGTRAIN_WATCH_NAMESPACES", "value": "a,b"} in container["env"]


@pytest.mark.parametrize("values", ["watchNamespaces=null", "watchNamespaces={a}"])
def test_no_role_has_wildcards_or_secrets(render: Render, values: str) -> None:
    manifests = render("--set", values)
    roles = of_kind(manifests, "ClusterRole") + of_kind(manifests, "Role")
    granted = set().union(*map(rules, roles))

    assert granted
    assert not [rule for rule in granted if "*" in rule or "secrets" in rule[1]]
    assert not [rule for rule in granted if rule[1].startswith(("pods/exec", "roles", "clusterroles"))]


def test_bindings_name_the_operators_account(render: Render) -> None:
    manifests = render("--set", "watchNamespaces={a},serviceAccount.name=mine")
    bindings = of_kind(manifests, "ClusterRoleBinding") + of_kind(manifests, "RoleBinding")
    roles = {(role["kind"], role["metadata"]["name"]) for role in manifests if role["kind"].endswith("Role")}

    assert len(bindings) == 3
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "mine", "namespace": "ringtrain-system"}]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
    assert only(manifests, "ServiceAccount")["metadata"]["name"] == "mine"


def test_users_roles_aggregate(render: Render) -> None:
    by_name = {role["metadata"]["name"]: role for role in of_kind(render(), "ClusterRole")}
    view, edit = (by_name[f"ringtrain-system-rt-ringtrain-{name}"] for name in ("view", "edit"))

    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    assert {verb for _, _, verb in rules(view)} == {"get", "list", "watch"}
    assert not [rule for rule in rules(edit) if rule[1].endswith("/status")]


def agents_from(manifests: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    (container,) = only(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    text = next((entry["value"] for entry in container["env"] if entry["name"] == "RINGTRAIN_AGENTS_FROM"), None)
    return list(json.loads(text)) if text is not None else None


def test_jobs_are_closed_to_all_but_the_operator_and_whom_the_values_name(render: Render) -> None:
    monitoring = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring"
    manifests = render("--set", monitoring)
    labels = only(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    operator, prometheus = agents_from(manifests) or []

    assert selects(operator["podSelector"], labels)
    assert operator["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "ringtrain-system"}}
    assert prometheus == {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    assert len(agents_from(render()) or []) == 1
    assert agents_from(render("--set", "networkPolicy.enabled=false")) is None
