"""Do NetworkPolicies let a job's pods talk to each other, to DNS and to the operator?"""

from collections.abc import Iterator

from ringtrain.contract.addresses import AGENT_PORT
from ringtrain_operator.doctor.facts import Facts, Labels, Unknown
from ringtrain_operator.doctor.finding import Finding, Level
from ringtrain_operator.doctor.policies import Direction, Peer, Port, blocking
from ringtrain_operator.plan.names import LABEL_EPOCH, LABEL_JOB, LABEL_REPLICA

_SUBJECT = "network"
_OPERATOR = {"app.kubernetes.io/name": "ringtrain", "app.kubernetes.io/component": "operator"}
_DNS_NAMESPACE, _DNS = "kube-system", {"k8s-app": "kube-dns"}


def check(facts: Facts) -> tuple[Finding, ...]:
    if isinstance(facts.policies, Unknown):
        return (Finding(Level.UNKNOWN, _SUBJECT, facts.policies.why),)
    if not facts.policies:
        return (Finding(Level.OK, _SUBJECT, f"no NetworkPolicy in namespace {facts.namespace}"),)
    # One finding for each obstacle, however many jobs meet it.
    blocked = dict.fromkeys(obstacle for labels in _pod_labels(facts) for obstacle in _obstacles(facts, labels))
    if blocked:
        return tuple(Finding(Level.FAIL, _SUBJECT, text, fix) for text, fix in blocked)
    names = ", ".join(policy["metadata"]["name"] for policy in facts.policies)
    return (Finding(Level.OK, _SUBJECT, f"NetworkPolicies let jobs work: {names}"),)


def _pod_labels(facts: Facts) -> list[Labels]:
    """Of each job; where there is none, of one that could come."""
    jobs = () if isinstance(facts.jobs, Unknown) else facts.jobs
    found: list[Labels] = []
    for job in jobs:
        own = (job.whole_spec.get("template") or {}).get("metadata", {}).get("labels") or {}
        found.append({**own, **_labels(job.name)})
    return found or [_labels("any")]


def _labels(job: str) -> Labels:
    return {LABEL_JOB: job, LABEL_REPLICA: "0", LABEL_EPOCH: "0"}


def _obstacles(facts: Facts, labels: Labels) -> Iterator[tuple[str, str]]:
    """(what is blocked, what to do)."""
    pods = f"allow it by a NetworkPolicy of namespace {facts.namespace} for pods with the label {LABEL_JOB}"
    peer = Peer(facts.namespace, facts.namespace_labels.get(facts.namespace, {}), labels, facts.pod_networks)
    for direction in ("Ingress", "Egress"):
        if names := _blocking(facts, direction, labels, peer, Port("TCP")):
            word = "from" if direction == "Ingress" else "to"
            yield (
                f"replicas cannot reach each other: {names} blocks {direction.lower()} {word} pods of the same job",
                f"{pods}: {direction.lower()} {word} podSelector {LABEL_JOB} (Exists), all TCP ports",
            )
    dns = Peer(_DNS_NAMESPACE, facts.namespace_labels.get(_DNS_NAMESPACE, {}), _DNS, facts.pod_networks)
    if names := _blocking(facts, "Egress", labels, dns, Port("UDP", 53)):
        yield (
            f"replicas cannot ask DNS: {names} blocks egress to port 53",
            f"{pods}: egress to namespace {_DNS_NAMESPACE}, ports 53 of UDP and TCP",
        )
    for namespace in _operator_namespaces(facts):
        operator = Peer(namespace, facts.namespace_labels.get(namespace, {}), _OPERATOR, facts.pod_networks)
        if names := _blocking(facts, "Ingress", labels, operator, Port("TCP", AGENT_PORT, "metrics")):
            yield (
                f"the operator cannot ask the agents: {names} blocks ingress from namespace {namespace}; rounds, loss "
                "and hangs stay unknown to it",
                f"{pods}: ingress from namespace {namespace}, port {AGENT_PORT}",
            )


def _operator_namespaces(facts: Facts) -> list[str]:
    operators = () if isinstance(facts.operators, Unknown) else facts.operators
    return sorted({operator.namespace for operator in operators})


def _blocking(facts: Facts, direction: Direction, labels: Labels, peer: Peer, port: Port) -> str:
    policies = () if isinstance(facts.policies, Unknown) else facts.policies
    return ", ".join(blocking(policies, direction, facts.namespace, labels, peer, port))
