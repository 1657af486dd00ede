"""What the agents of a job's pods say."""

import asyncio
from collections.abc import Iterable

from pydantic import ValidationError

from ringtrain.contract.addresses import AGENT_PORT
from ringtrain.contract.report import AgentStatus, JobReport
from ringtrain_operator.fetch import get
from ringtrain_operator.plan.observed import Pod

ANSWER_SECONDS = 1.5
ASKED = 3
"""Agents asked in one pass: each has the whole job's report, and one may be unreachable."""


async def job_report(job: str, pods: Iterable[tuple[Pod, str]]) -> JobReport | None:
    """The report that the agent of the lowest replica gave, if any answered. `pods` come with their IP addresses.

    Replica 0 is asked first: the coordinator runs beside its agent.
    """
    asked = sorted(pods, key=lambda entry: (entry[0].index, -entry[0].epoch))[:ASKED]
    answers = await asyncio.gather(*(_ask(job, pod, address) for pod, address in asked))
    return next((answer.job_report for answer in answers if answer and answer.job_report), None)


async def _ask(job: str, pod: Pod, address: str) -> AgentStatus | None:
    try:
        status, body = await get(address, AGENT_PORT, "/status", ANSWER_SECONDS)
        answer = AgentStatus.model_validate_json(body) if status == 200 else None
    except (OSError, ValidationError):
        return None
    # An address may belong to another pod by now.
    return answer if answer and (answer.job, answer.replica, answer.epoch) == (job, pod.index, pod.epoch) else None
