"""Does an operator run that looks at the namespace?"""

from datetime import timedelta

from ringtrain_operator.doctor.facts import Facts, Operator, Unknown
from ringtrain_operator.doctor.finding import Finding, Level

_SUBJECT = "operator"
_PATIENCE = timedelta(minutes=1)
"""A job that no operator has seen for so long is not looked at."""
_PULLS = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
IMAGE_TROUBLE = _PULLS


def check(facts: Facts) -> tuple[Finding, ...]:
    if isinstance(facts.operators, Unknown):
        return (_by_jobs(facts) or Finding(Level.UNKNOWN, _SUBJECT, facts.operators.why),)
    if not facts.operators:
        text = "no operator is installed: nobody acts on TrainingJobs"
        fix = (
            "helm upgrade --install ringtrain charts/ringtrain -n ringtrain-system --create-namespace; one that runs "
            "elsewhere is named by --operator-namespace"
        )
        return (_by_jobs(facts) or Finding(Level.FAIL, _SUBJECT, text, fix),)
    findings = [_state(operator) for operator in facts.operators]
    watching = [o for o in facts.operators if not o.watched or facts.namespace in o.watched]
    if not watching:
        names = ", ".join(f"{o} watches {', '.join(o.watched)}" for o in facts.operators)
        fix = f"add it to watchNamespaces of the chart: --set 'watchNamespaces={{...,{facts.namespace}}}'"
        findings.append(Finding(Level.FAIL, _SUBJECT, f"nobody watches namespace {facts.namespace}: {names}", fix))
    elif len(acting := [str(operator) for operator in watching if operator.ready > 0]) > 1:
        text = f"{' and '.join(acting)} act on the same jobs of namespace {facts.namespace}, against each other"
        fix = "leave it to one of them: set watchNamespaces of the chart for the others, or uninstall them"
        findings.append(Finding(Level.FAIL, _SUBJECT, text, fix))
    elif all(finding.level is Level.OK for finding in findings) and (unseen := _by_jobs(facts)) is not None:
        findings.append(unseen)
    return tuple(findings)


def _state(operator: Operator) -> Finding:
    if operator.wanted == 0:
        fix = f"kubectl scale deployment {operator.name} -n {operator.namespace} --replicas=1"
        return Finding(Level.FAIL, _SUBJECT, f"{operator} is down: it is scaled to 0 replicas", fix)
    if operator.ready > 0:
        where = ", ".join(operator.watched) or "all namespaces"
        return Finding(Level.OK, _SUBJECT, f"{operator} is ready ({operator.image}), for {where}")
    trouble = "; ".join(operator.trouble) or "no pod of it is ready"
    if any(text.partition(":")[0] in _PULLS for text in operator.trouble):
        text = f"{operator} is down: its image {operator.image} cannot be pulled: {trouble}"
        fix = "name an image that the nodes can pull: helm upgrade --set image.repository=...,image.tag=..."
        return Finding(Level.FAIL, _SUBJECT, text, fix)
    fix = (
        f"kubectl describe pods -n {operator.namespace} -l app.kubernetes.io/component=operator, and kubectl logs "
        f"deployment/{operator.name} -n {operator.namespace}"
    )
    return Finding(Level.FAIL, _SUBJECT, f"{operator} is down: {trouble}", fix)


def _by_jobs(facts: Facts) -> Finding | None:
    """Whether somebody acts on the jobs that are there; None when they do not tell."""
    if isinstance(facts.jobs, Unknown) or not facts.jobs:
        return None
    old = [job for job in facts.jobs if job.created is not None and facts.now - job.created > _PATIENCE]
    unseen = [job.name for job in old if job.status.observed_generation == 0]
    if unseen:
        text = f"nobody acts on {', '.join(unseen)}: no operator has written a status for a minute"
        fix = "kubectl logs deployment/ringtrain -n ringtrain-system says why, if it runs"
        return Finding(Level.FAIL, _SUBJECT, text, fix)
    return None
