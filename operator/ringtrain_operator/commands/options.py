"""Options and arguments that several commands have, under one name and with one meaning."""

import asyncio
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ringtrain_operator.client import ClientError, TrainingJobs

_COMPLETION_SECONDS = 2.0
RUN_DIRECTORIES = Path(".ringtrain")


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


def complete_job(context: typer.Context, incomplete: str) -> list[str]:
    """Names of jobs in the namespace; none when the cluster does not answer soon."""

    async def names() -> Iterable[str]:
        async with (
            asyncio.timeout(_COMPLETION_SECONDS),
            TrainingJobs.connect(context.params.get("namespace"), context.params.get("context")) as jobs,
        ):
            return [job.name for job in await jobs.list()]

    try:
        return [name for name in asyncio.run(names()) if name.startswith(incomplete)]
    except (ClientError, OSError):
        return []


FileOption = Annotated[Path, typer.Option("--file", "-f", help="YAML file with one TrainingJob.", show_default=False)]
JobArgument = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Name of a TrainingJob.", show_default=False, autocompletion=complete_job),
]
JobsArgument = Annotated[
    list[str],
    typer.Argument(metavar="JOB", help="Names of TrainingJobs.", show_default=False, autocompletion=complete_job),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of the job; by default the context's.", show_default=False),
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", help="Context of the kubeconfig; by default the current one.", show_default=False),
]
OutputOption = Annotated[Format, typer.Option("--output", "-o", help="What is printed.")]
LocalOption = Annotated[bool, typer.Option("--local", help="Runs of this machine (`ringtrain run`), not of a cluster.")]
DirectoryOption = Annotated[
    Path, typer.Option("--directory", help="Folder for the jobs' run directories: checkpoints, logs, status.")
]
