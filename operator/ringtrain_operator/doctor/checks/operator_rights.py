"""May the operator do what it does?"""

from ringtrain_operator.doctor.facts import Facts, Unknown
from ringtrain_operator.doctor.finding import Finding, Level
from ringtrain_operator.doctor.rights import in_words

_SUBJECT = "operator's rights"


def check(facts: Facts) -> tuple[Finding, ...]:
    denied = facts.operator_denied
    if isinstance(denied, Unknown):
        return (Finding(Level.UNKNOWN, _SUBJECT, denied.why),)
    return tuple(
        Finding(
            Level.FAIL,
            _SUBJECT,
            f"{account} may not {in_words(rights)}",
            "helm upgrade with rbac.create=true, or grant it what charts/ringtrain/templates/clusterrole.yaml lists",
        )
        if rights
        else Finding(Level.OK, _SUBJECT, f"{account} may do all that it needs")
        for account, rights in denied.items()
    )
