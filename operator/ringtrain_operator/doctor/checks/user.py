"""May we do what the commands do?"""

from ringtrain_operator.doctor.facts import Facts
from ringtrain_operator.doctor.finding import Finding, Level
from ringtrain_operator.doctor.rights import in_words

_SUBJECT = "your rights"
_PROXY = "pods/proxy"


def check(facts: Facts) -> tuple[Finding, ...]:
    needed = tuple(right for right in facts.denied if right.resource != _PROXY)
    if needed:
        text = f"in namespace {facts.namespace} you may not {in_words(needed)}"
        fix = (
            f"an administrator grants it: kubectl create rolebinding ringtrain-users -n {facts.namespace} "
            "--clusterrole=edit --user=YOU (the chart's rbac.aggregate adds TrainingJobs to the role edit)"
        )
        return (Finding(Level.FAIL, _SUBJECT, text, fix),)
    if facts.denied:
        text = f"you may not {in_words(facts.denied)}: `ringtrain top` cannot ask the agents"
        return (Finding(Level.WARN, _SUBJECT, text, "an administrator grants get of pods/proxy"),)
    return (Finding(Level.OK, _SUBJECT, f"in namespace {facts.namespace} you may do all that jobs need"),)
