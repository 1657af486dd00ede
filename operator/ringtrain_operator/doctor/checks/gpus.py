"""Do the nodes offer GPUs?"""

from ringtrain_operator.doctor.facts import Facts, Unknown
from ringtrain_operator.doctor.finding import Finding, Level

_SUBJECT = "GPUs"
_DEFAULT = "nvidia.com/gpu"


def check(facts: Facts) -> tuple[Finding, ...]:
    gpus = facts.gpus
    if isinstance(gpus, Unknown):
        return (Finding(Level.UNKNOWN, _SUBJECT, gpus.why),)
    offered = ", ".join(f"{number} {resource}" for resource, number in sorted(gpus.items()))
    findings = [_needed(name, resource, gpus.get(resource, 0), wanted) for name, resource, wanted in _wanted(facts)]
    if not gpus:
        text = "no ready node offers GPUs: jobs need device: cpu"
        fix = "install the device plug-in of your GPUs; `kubectl describe nodes` shows what nodes offer"
        return (*findings, Finding(Level.WARN, _SUBJECT, text, fix))
    if _DEFAULT not in gpus:
        text = f"nodes offer {offered}, and no {_DEFAULT}"
        return (
            *findings,
            Finding(
                Level.WARN,
                _SUBJECT,
                text,
                f"set spec.gpuResource: {min(gpus)}, or for all jobs jobDefaults of the chart",
            ),
        )
    return (*findings, Finding(Level.OK, _SUBJECT, f"nodes offer {offered}"))


def _wanted(facts: Facts) -> list[tuple[str, str, int]]:
    """Name, resource and number of each job that is not over."""
    jobs = () if isinstance(facts.jobs, Unknown) else facts.jobs
    return [
        (
            job.name,
            job.whole_spec.get("gpuResource", _DEFAULT),
            job.spec.get("replicas", 1) * job.spec.get("procsPerReplica", 1),
        )
        for job in jobs
        if job.spec.get("device", "cuda") == "cuda" and not job.is_over
    ]


def _needed(job: str, resource: str, offered: int, wanted: int) -> Finding:
    if offered >= wanted:
        return Finding(Level.OK, _SUBJECT, f"job {job} wants {wanted} {resource} of {offered}")
    text = f"job {job} wants {wanted} {resource}, and all nodes together offer {offered}"
    return Finding(Level.FAIL, _SUBJECT, text, "lower its replicas or procsPerReplica, set gpuResource, or add nodes")
