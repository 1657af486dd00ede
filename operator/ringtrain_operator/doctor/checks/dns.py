"""Does cluster DNS run? Replicas find each other by names."""

from ringtrain_operator.api.status import JobPhase
from ringtrain_operator.client.job import TrainingJob
from ringtrain_operator.doctor.facts import Facts, Unknown
from ringtrain_operator.doctor.finding import Finding, Level

_SUBJECT = "DNS"


def check(facts: Facts) -> tuple[Finding, ...]:
    dns = facts.dns
    if isinstance(dns, Unknown):
        return (Finding(Level.UNKNOWN, _SUBJECT, dns.why),)
    answering = {name: ready for name, ready in dns.services.items() if ready}
    if answering:
        shown = ", ".join(f"{name} ({ready} addresses)" for name, ready in answering.items())
        return (Finding(Level.OK, _SUBJECT, f"{shown} is ready"),)
    if dns.services:
        text = (
            f"cluster DNS is down: {', '.join(dns.services)} has no ready address, so replicas cannot find each other"
        )
        fix = "kubectl get pods -n kube-system -l k8s-app=kube-dns, and their logs, say why"
        return (Finding(Level.FAIL, _SUBJECT, text, fix),)
    if any(job.status.phase is JobPhase.RUNNING and job.status.replicas > 1 for job in _jobs(facts)):
        return (Finding(Level.OK, _SUBJECT, "replicas of a job that runs have found each other"),)
    text = "no cluster DNS was found (no Service of k8s-app=kube-dns): replicas find each other by it"
    return (Finding(Level.WARN, _SUBJECT, text, "install CoreDNS, unless the nodes have another DNS for pods"),)


def _jobs(facts: Facts) -> tuple[TrainingJob, ...]:
    return () if isinstance(facts.jobs, Unknown) else facts.jobs
