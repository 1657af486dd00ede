"""Is the CRD there, and of this version?"""

from ringtrain_operator.api.spec import VERSION
from ringtrain_operator.doctor.facts import Facts, Unknown
from ringtrain_operator.doctor.fields import known_fields
from ringtrain_operator.doctor.finding import Finding, Level

_SUBJECT = "CRD"
_INSTALL = (
    "install Ringtrain's chart: helm upgrade --install ringtrain charts/ringtrain -n ringtrain-system "
    "--create-namespace (or the CRD alone: kubectl apply -f crds/)"
)
_SHOWN = 5


def check(facts: Facts) -> tuple[Finding, ...]:
    crd = facts.crd
    if isinstance(crd, Unknown):
        return (Finding(Level.UNKNOWN, _SUBJECT, crd.why),)
    if crd is None:
        return (Finding(Level.FAIL, _SUBJECT, "the cluster knows no TrainingJobs: their CRD is missing", _INSTALL),)
    if VERSION not in crd.served:
        text = f"the CRD serves {', '.join(crd.served) or 'no version'}, and not {VERSION}"
        return (Finding(Level.FAIL, _SUBJECT, text, _INSTALL),)
    if not crd.established:
        text = "the CRD is not established: another resource may have its names"
        return (Finding(Level.FAIL, _SUBJECT, text, "kubectl describe crd trainingjobs.ringtrain.io says which"),)
    missing, more = known_fields() - crd.fields, crd.fields - known_fields()
    if missing:
        text = f"the CRD is older than this command: fields it does not know are dropped: {_some(missing)}"
        return (Finding(Level.FAIL, _SUBJECT, text, f"upgrade it: {_INSTALL}"),)
    if more:
        text = f"the CRD is newer than this command, which does not know {_some(more)}"
        return (Finding(Level.WARN, _SUBJECT, text, "use the command of the version that the cluster has"),)
    return (Finding(Level.OK, _SUBJECT, f"{VERSION}, as this command knows it"),)


def _some(fields: frozenset[str]) -> str:
    """The outermost first, for they tell the most."""
    shown = sorted(fields, key=lambda path: (path.count("."), path))
    outer = [path for path in shown if not any(path.startswith(f"{other}.") for other in fields)]
    more = f" and {len(outer) - _SHOWN} more" if len(outer) > _SHOWN else ""
    return ", ".join(outer[:_SHOWN]) + more
