"""What the agents of a job's pods say."""

import asyncio
from collections.abc import Callable, Sequence, Set

from pydantic import ValidationError

from ringtrain.contract.addresses import AGENT_PORT
from ringtrain.contract.report import AgentStatus, JobReport
from ringtrain_operator.fetch import get
from ringtrain_operator.plan.observed import JobKey, Pod

ANSWER_SECONDS = 1.5
ALONE_SECONDS = 0.3
"""Only the first agent is asked for so long: it mostly answers."""
ASKED = 3
"""Agents asked in one pass: each has the whole job's report, and one may be unreachable."""
FRESH_SECONDS = 1.0
"""Passes that follow each other so closely ask once."""

REMEMBERED_SECONDS = 15.0
"""What was said so long ago may stand for an answer."""


class Agents:
    """`clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reports: dict[JobKey, tuple[JobReport | None, float]] = {}

    async def job_report(self, job: JobKey, pods: Sequence[tuple[Pod, str]]) -> JobReport | None:
        """The report that the agent of the lowest replica gave, if any answered, now or just before. `pods` come with
        their IP addresses."""
        if not pods:
            return None
        report, at = self._reports.get(job, (None, float("-inf")))
        if self._clock() - at > FRESH_SECONDS:
            report = await _job_report(job.name, pods)
            self._reports[job] = (report, self._clock())
        return report

    def last_report(self, job: JobKey) -> JobReport | None:
        """What was said last, if that is not long ago."""
        report, at = self._reports.get(job, (None, float("-inf")))
        return report if self._clock() - at < REMEMBERED_SECONDS else None

    def forget_all_but(self, jobs: Set[JobKey]) -> None:
        self._reports = {job: known for job, known in self._reports.items() if job in jobs}


async def _job_report(job: str, pods: Sequence[tuple[Pod, str]]) -> JobReport | None:
    """Replica 0 is asked first: the coordinator runs beside its agent."""
    asked = sorted(pods, key=lambda entry: (entry[0].index, -entry[0].epoch))[:ASKED]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(job, *asked[0]))]
        await asyncio.wait(tasks, timeout=ALONE_SECONDS)
        if not tasks[0].done() or tasks[0].result() is None:
            tasks += [group.create_task(_ask(job, *other)) for other in asked[1:]]
    return next((report for task in tasks if (report := task.result()) is not None), None)


async def _ask(job: str, pod: Pod, address: str) -> JobReport | None:
    try:
        status, body = await get(address, AGENT_PORT, "/status", ANSWER_SECONDS)
        answer = AgentStatus.model_validate_json(body) if status == 200 else None
    except (OSError, ValidationError):
        return None
    # An address may belong to another pod by now.
    if answer is None or (answer.job, answer.replica, answer.epoch) != (job, pod.index, pod.epoch):
        return None
    return answer.job_report
