"""`ringtrain doctor`."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from ringtrain_operator.client import TrainingJobs
from ringtrain_operator.commands import exit_status
from ringtrain_operator.commands.options import ContextOption, Format, NamespaceOption, OutputOption
from ringtrain_operator.commands.session import with_jobs
from ringtrain_operator.commands.show import Screen, Sheet
from ringtrain_operator.doctor.checks import diagnose
from ringtrain_operator.doctor.finding import Finding, Level
from ringtrain_operator.doctor.gather import gather


def doctor(
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    operator_namespace: Annotated[
        str | None,
        typer.Option(help="Where the operator is; by default it is looked for everywhere.", show_default=False),
    ] = None,
) -> None:
    """Look for what keeps TrainingJobs from running in a namespace, and say how to mend it.

    Nothing is changed. Exit status: 0 nothing was found, 1 something is broken (FAIL), 3 the cluster cannot be asked.
    """

    async def work(jobs: TrainingJobs) -> tuple[Finding, ...]:
        return diagnose(await gather(jobs, operator_namespace, datetime.now(UTC)))

    findings = with_jobs(namespace, context, work)
    if output is Format.JSON:
        Screen().json([asdict(finding) for finding in findings])
    else:
        Screen().show(Sheet(("", "SUBJECT", "FOUND"), [row for finding in findings for row in _rows(finding)]))
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(exit_status.FAILED)


def _rows(finding: Finding) -> list[tuple[str, str, str]]:
    fix = [("", "", f"-> {finding.fix}")] if finding.fix else []
    return [(finding.level.value, finding.subject, finding.text), *fix]
