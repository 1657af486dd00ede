import asyncio
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import UTC, datetime

from aiohttp import web

from ringtrain.contract.addresses import AGENT_PORT
from ringtrain.contract.report import AgentStatus, JobReport
from ringtrain_operator.cluster.agents import FRESH_SECONDS, Agents
from ringtrain_operator.plan.observed import JobKey, Pod, PodPhase
from ringtrain_operator.server import serve

NET = "127.113.7"
KEY = JobKey("n", "j")


def pod(index: int, epoch: int = 0) -> Pod:
    return Pod(
        name=f"j-{index}-{epoch}",
        uid=f"{index}.{epoch}",
        index=index,
        epoch=epoch,
        phase=PodPhase.RUNNING,
        created=datetime.now(UTC),
    )


def status(replica: int, generation: str | None, *, job: str = "j", epoch: int = 0) -> str:
    report = JobReport(generation=generation) if generation else None
    return AgentStatus(job=job, replica=replica, epoch=epoch, live=True, job_report=report).to_json()


def ask(answers: dict[int, str], pods: list[Pod]) -> JobReport | None:
    """`answers`: what is served at each last number of the address; pods have their index + 1."""

    async def run() -> JobReport | None:
        async with AsyncExitStack() as stack:
            for number, text in answers.items():
                await stack.enter_async_context(serve_status(f"{NET}.{number}", text))
            return await Agents(time.monotonic).job_report(KEY, [(pod, f"{NET}.{pod.index + 1}") for pod in pods])

    return asyncio.run(run())


def serve_status(host: str, text: str) -> AbstractAsyncContextManager[int]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text)

    return serve(AGENT_PORT, [web.get("/status", answer)], host)


def test_replica_0_is_believed_first() -> None:
    report = ask({1: status(0, "2.0"), 2: status(1, "1.0")}, [pod(1), pod(0)])
    assert report is not None
    assert report.generation == "2.0"


def test_another_is_asked_when_replica_0_does_not_answer_or_knows_nothing() -> None:
    for first in (
        {},
        {1: status(0, None)},
        {1: "garbage"},
        {1: status(0, "9.0", job="other")},
        {1: status(0, "9.0", epoch=3)},
    ):
        report = ask(first | {2: status(1, "1.0")}, [pod(0), pod(1)])
        assert report is not None
        assert report.generation == "1.0"


def test_nobody_answers() -> None:
    assert ask({}, [pod(0)]) is None
    assert ask({}, []) is None


def test_passes_that_follow_each_other_closely_ask_once() -> None:
    now, asked = 0.0, 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(text=status(0, f"{asked}.0"))

    async def run() -> list[str | None]:
        nonlocal now
        agents, found = Agents(lambda: now), []
        async with serve(AGENT_PORT, [web.get("/status", answer)], f"{NET}.1"):
            for at in (0.0, FRESH_SECONDS, FRESH_SECONDS + 0.1):
                now = at
                report = await agents.job_report(KEY, [(pod(0), f"{NET}.1")])
                found.append(report.generation if report else None)
            agents.forget_all_but(set())
            report = await agents.job_report(KEY, [(pod(0), f"{NET}.1")])
            return [*found, report.generation if report else None]

    assert asyncio.run(run()) == ["1.0", "1.0", "2.0", "3.0"]
