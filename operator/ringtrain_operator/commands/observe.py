"""`ringtrain status`, `top` and `events`: what jobs do."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Protocol

import typer

from ringtrain_operator.api.status import JobPhase
from ringtrain_operator.client import TrainingJob, TrainingJobs
from ringtrain_operator.commands import describe, exit_status
from ringtrain_operator.commands.options import (
    RUN_DIRECTORIES,
    ContextOption,
    DirectoryOption,
    Format,
    JobArgument,
    LocalOption,
    NamespaceOption,
    OutputOption,
    complete_job,
)
from ringtrain_operator.commands.session import finish, with_jobs
from ringtrain_operator.commands.show import Screen, Sheet, together
from ringtrain_operator.commands.usage import refuse
from ringtrain_operator.local.runs import LocalRuns

_LOOK_SECONDS = 1.0

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Go on showing it as it changes.")]
OptionalJob = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB", help="One job in full; without it all jobs.", show_default=False, autocompletion=complete_job
    ),
]

Jobs = tuple[TrainingJob, ...]
Look = Callable[[], Awaitable[Jobs]]


class _Source(Protocol):
    """Of a cluster, or of this machine."""

    async def get(self, name: str) -> TrainingJob: ...

    async def list(self, *, all_namespaces: bool = False) -> Jobs: ...


def status(
    job: OptionalJob = None,
    watch: WatchOption = False,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Jobs of all namespaces.")] = False,
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    local: LocalOption = False,
    directory: DirectoryOption = RUN_DIRECTORIES,
) -> None:
    """Show jobs, or all that is known of one.

    With --watch, one job is shown until it is over: exit status 0 when it succeeded, 1 when it failed. In a pipe a
    watch prints a line for each change, and with -o json a document.
    """
    if job is not None and all_namespaces:
        raise refuse("--all-namespaces is for all jobs: leave JOB out, or name its namespace by -n")

    async def work(source: _Source) -> Jobs:
        async def look() -> Jobs:
            if job is not None:
                return (await source.get(job),)
            return await source.list(all_namespaces=all_namespaces)

        view = _View(one=job is not None, namespaces=all_namespaces, output=output)
        if watch:
            return await _watch(look, view)
        found = await look()
        view.once(found)
        return found

    found = finish(lambda: work(LocalRuns(directory))) if local else with_jobs(namespace, context, work)
    if watch and job is not None and found[0].status.phase is not JobPhase.SUCCEEDED:
        raise typer.Exit(exit_status.FAILED)


class _View:
    """How one job, or several, are printed."""

    def __init__(self, *, one: bool, namespaces: bool, output: Format) -> None:
        self.one = one
        self.screen = Screen()
        self.is_live = self.screen.is_terminal and output is Format.TABLE
        self._namespaces = namespaces
        self._output = output
        self._shown: Jobs | None = None

    def blocks(self, found: Jobs) -> list[str | Sheet]:
        now = datetime.now(UTC)
        if self.one:
            return describe.job(found[0], now)
        return [describe.jobs(found, now, namespaces=self._namespaces) if found else "there are no TrainingJobs"]

    def once(self, found: Jobs) -> None:
        if self._output is Format.TABLE:
            self.screen.show(*self.blocks(found))
        elif self.one:
            self.screen.json(found[0].raw)
        else:
            self.screen.json({"apiVersion": "v1", "kind": "List", "items": [job.raw for job in found]})

    def changed(self, found: Jobs) -> None:
        """Only jobs that are not as they were the last time; a header at first."""
        news = tuple(job for job in found if self._shown is None or job not in self._shown)
        if self._output is Format.JSON:
            for job in news:
                self.screen.json(job.raw, one_line=True)
        elif news:
            sheet = describe.jobs(news, datetime.now(UTC), namespaces=self._namespaces)
            self.screen.show(sheet if self._shown is None else sheet.headless())
        self._shown = found


async def _watch(look: Look, view: _View) -> Jobs:
    if not view.is_live:
        return await _until_over(look, view.one, view.changed)
    with view.screen.live() as live:
        return await _until_over(look, view.one, lambda found: live.update(together(*view.blocks(found)), refresh=True))


async def _until_over(look: Look, one: bool, show: Callable[[Jobs], None]) -> Jobs:
    while True:
        found = await look()
        show(found)
        if one and found[0].is_over:
            return found
        await asyncio.sleep(_LOOK_SECONDS)


def top(
    job: JobArgument,
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
) -> None:
    """Show what each rank of a job does right now, as its pods' agents tell it."""

    async def work(jobs: TrainingJobs) -> None:
        pods = await jobs.pods(await jobs.get(job))
        agents = await jobs.agents(pods)
        if output is Format.JSON:
            Screen().json({pod: agent.model_dump(mode="json", by_alias=True) for pod, agent in agents.items()})
        else:
            Screen().show(describe.ranks(pods, agents) if pods else f"{job} has no pods")

    with_jobs(namespace, context, work)


def events(
    job: JobArgument,
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
) -> None:
    """Show what happened to a job, its pods and its volume claim, oldest first. Kubernetes keeps events for an hour."""

    async def work(jobs: TrainingJobs) -> None:
        found = await jobs.events(job)
        if output is Format.JSON:
            Screen().json([{**asdict(event), "time": event.time.isoformat()} for event in found])
        else:
            Screen().show(describe.events(found, datetime.now(UTC)) if found else f"no events about {job}")

    with_jobs(namespace, context, work)
