"""docs/reference.md: every condition, reason, exit code and metric."""

from collections.abc import Iterable

from prometheus_client import Metric

from reference.source import constant_docs, reasons
from reference.tables import table
from reference.words import CONDITIONS, REASONS
from ringtrain.agent.metrics import Metrics, Sample
from ringtrain.contract import exit_codes
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.report import AgentStatus
from ringtrain_operator.api import status
from ringtrain_operator.api.status import JobPhase
from ringtrain_operator.metrics import OperatorMetrics

_HEAD = """\
# Reference

Written by `PYTHONPATH=tools python -m reference`, from the code: every phase, condition, reason, exit code and metric
there is. The fields of a job: [fields](fields.md).
"""
_REASONS = """
Of events, of `status.failures` and `status.warnings`, and of conditions; phases are such reasons, too.
"""
_EXIT_CODES = """
The reason stands in `status.failures` and in an event. 128 + n is the end by signal n (`Signaln`), any other code is
`Crashed`. Reasons that Kubernetes gives to pods (`Evicted`, ...) are passed on. Which codes are restarted and counted:
[design](design.md#exit-codes-of-a-replica).
"""
_METRICS = """
Where and how they are scraped: [monitoring](monitoring.md). Counters are named here as they are queried.
"""


def text() -> str:
    """Of the whole page. Raises KeyError for a reason that `words` does not explain."""
    phases = constant_docs(status, "JobPhase")
    codes = constant_docs(exit_codes, "ExitCode")
    parts = [
        _HEAD,
        "## Phases\n",
        table(("phase", "meaning"), ((each.value, phases[each.name]) for each in JobPhase)),
        "## Conditions\n",
        table(("type", "meaning"), CONDITIONS.items()),
        "## Reasons\n" + _REASONS,
        table(("reason", "meaning"), ((reason, REASONS[reason]) for reason in sorted(reasons()))),
        "## Exit codes of a replica\n" + _EXIT_CODES,
        table(
            ("code", "reason", "meaning"),
            ((str(int(code)), exit_codes.reason(code) if code else "", codes[code.name]) for code in ExitCode),
        ),
        "## Metrics\n" + _METRICS,
        "### Of the operator\n",
        _metrics(OperatorMetrics(lambda: 0).registry.collect()),
        "### Of every replica\n",
        _metrics(Metrics(_nothing).registry.collect()),
    ]
    return "\n".join(parts)


def _nothing() -> Sample:
    return Sample("", AgentStatus(job="", replica=0, epoch=0, live=True), 0, False)


def _metrics(families: Iterable[Metric]) -> str:
    rows = ((_queried(family), family.type, family.documentation) for family in sorted(families, key=lambda f: f.name))
    return table(("metric", "type", "meaning"), rows)


def _queried(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name
