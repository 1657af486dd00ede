"""`ringtrain logs`."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any, Protocol

import typer

from ringtrain.contract.output import prefix as rank_prefix
from ringtrain_operator.client import LogLine
from ringtrain_operator.commands.options import (
    RUN_DIRECTORIES,
    ContextOption,
    DirectoryOption,
    Format,
    JobArgument,
    LocalOption,
    NamespaceOption,
    OutputOption,
)
from ringtrain_operator.commands.session import finish, with_jobs
from ringtrain_operator.commands.show import Screen
from ringtrain_operator.commands.usage import refuse
from ringtrain_operator.local.runs import LocalRuns


class _Source(Protocol):
    """Of a cluster, or of this machine."""

    def logs(
        self,
        name: str,
        *,
        replica: int | None = None,
        rank: int | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> AsyncGenerator[LogLine, None]: ...


def logs(
    job: JobArgument,
    replica: Annotated[
        int | None, typer.Option(min=0, help="This replica only; by default all, each line with its pod.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option(min=0, help="This rank only; an only rank of its replica with what its agent says.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job is over, with pods that replace others.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, help="Of each pod, so many of the last lines, of all its ranks.")
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Each line with its time, where it is known.")
    ] = False,
    prefix: Annotated[
        bool | None,
        typer.Option(
            "--prefix/--no-prefix",
            help="Each line with its pod; by default when there may be several.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    local: LocalOption = False,
    directory: DirectoryOption = RUN_DIRECTORIES,
) -> None:
    """Print what a job's processes print, of all replicas, of one, or of one rank.

    With --follow it goes on through restarts: Kubernetes deletes a replaced pod's log with the pod. With -o json each
    line is a document that names pod, replica, rank and time. A rank is named where a replica has several.
    """
    if replica is not None and rank is not None:
        raise refuse("--rank names its replica by itself: give --replica or --rank")

    async def work(source: _Source) -> None:
        prefixed = replica is None and rank is None if prefix is None else prefix
        screen, silent = Screen(), True
        async with aclosing(source.logs(job, replica=replica, rank=rank, tail=tail, follow=follow)) as lines:
            async for line in lines:
                silent = False
                if output is Format.JSON:
                    screen.json(document(line), one_line=True)
                else:
                    sys.stdout.write(text(line, pods=prefixed, ranks=rank is None, timestamps=timestamps) + "\n")
                    sys.stdout.flush()
        if silent and tail != 0:
            of = "" if rank is None else f" of rank {rank}; the built-in trainer tells of rounds on rank 0"
            typer.echo(f"{job} has no line{of}", err=True)

    return finish(lambda: work(LocalRuns(directory))) if local else with_jobs(namespace, context, work)


def text(line: LogLine, *, pods: bool, ranks: bool, timestamps: bool) -> str:
    """One printed line, with its pod, and its rank where it has one."""
    time = f"{line.time:%Y-%m-%dT%H:%M:%S.%fZ} " if timestamps and line.time is not None else ""
    pod = f"[{line.pod}] " if pods else ""
    return pod + time + (rank_prefix(line.rank) if ranks and line.rank is not None else "") + line.text


def document(line: LogLine) -> dict[str, Any]:
    """The same for programs."""
    return {**asdict(line), "time": line.time.isoformat() if line.time is not None else None}
