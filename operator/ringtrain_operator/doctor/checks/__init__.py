"""The checks, in the order in which causes should be looked for. Each is pure: facts in, findings out."""

from collections.abc import Callable

from ringtrain_operator.doctor.checks import crd, dns, gpus, images, network, operator_rights, operators, storage, user
from ringtrain_operator.doctor.facts import Facts
from ringtrain_operator.doctor.finding import Finding

CHECKS: tuple[Callable[[Facts], tuple[Finding, ...]], ...] = (
    crd.check,
    user.check,
    operators.check,
    operator_rights.check,
    images.check,
    storage.check,
    gpus.check,
    dns.check,
    network.check,
)


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """What all checks find."""
    return tuple(finding for check in CHECKS for finding in check(facts))
