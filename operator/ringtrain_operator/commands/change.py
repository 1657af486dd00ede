"""`ringtrain submit`, `suspend`, `resume`, `restart` and `delete`: what makes, changes and ends jobs."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import typer

from ringtrain_operator.api.spec import GROUP, KIND, VERSION
from ringtrain_operator.client import TrainingJob, TrainingJobs
from ringtrain_operator.commands.options import (
    ContextOption,
    FileOption,
    Format,
    JobArgument,
    JobsArgument,
    NamespaceOption,
    OutputOption,
)
from ringtrain_operator.commands.session import with_jobs
from ringtrain_operator.commands.show import Screen
from ringtrain_operator.commands.usage import UsageError, read_job, refuse
from ringtrain_operator.local.job_file import JobFile


def submit(
    file: FileOption,
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
) -> None:
    """Give a TrainingJob to the cluster, or change the one of its name.

    The file is checked first, by all rules of the operator. It replaces the whole spec of a job that exists; labels and
    annotations are added.
    """
    try:
        job, _ = read_job(file)
    except UsageError as error:
        raise refuse(*error.lines) from error
    own = job.metadata.get("namespace")
    if namespace is not None and own is not None and own != namespace:
        raise refuse(f"{file} says namespace {own}, and --namespace {namespace}: leave one of them out")
    if job.ignored:
        typer.echo(f"not submitted: objects of kind {', '.join(job.ignored)} (`kubectl apply -f` takes them)", err=True)

    async def work(jobs: TrainingJobs) -> None:
        before = await jobs.find(job.name)
        after = await jobs.submit(_manifest(job, jobs.namespace))
        _tell(after, _what_happened(before, after), output)

    with_jobs(namespace or own, context, work)


def _each(
    names: Sequence[str],
    change: Callable[[TrainingJobs, str], Awaitable[TrainingJob]],
    what_happened: str,
    output: Format,
    namespace: str | None,
    context: str | None,
) -> None:
    async def work(jobs: TrainingJobs) -> None:
        for name in names:
            _tell(await change(jobs, name), what_happened, output)

    with_jobs(namespace, context, work)


def _tell(job: TrainingJob, what_happened: str, output: Format) -> None:
    """In JSON the job as it is now, or was last; of several jobs a document each."""
    if output is Format.JSON:
        Screen().json(job.raw)
    else:
        typer.echo(f"{job.namespace}/{job.name} {what_happened}")


def _manifest(job: JobFile, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {**job.metadata, "namespace": namespace},
        "spec": job.spec,
    }


def _what_happened(before: TrainingJob | None, after: TrainingJob) -> str:
    if before is None:
        return "created"
    return (
        "unchanged"
        if before.raw["metadata"]["resourceVersion"] == after.raw["metadata"]["resourceVersion"]
        else "changed"
    )


def suspend(
    jobs: JobsArgument,
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
) -> None:
    """Free what jobs hold: their ranks save a checkpoint, and their pods end."""
    _each(jobs, TrainingJobs.suspend, "is being suspended", output, namespace, context)


def resume(
    jobs: JobsArgument,
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
) -> None:
    """Let suspended jobs go on from their newest checkpoint."""
    _each(jobs, TrainingJobs.resume, "resumed", output, namespace, context)


def restart(
    job: JobArgument,
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    within: Annotated[float, typer.Option(min=1, help="Seconds that the pods may take to end.")] = 600,
) -> None:
    """Start all pods of a job anew, from its newest checkpoint.

    A running job is suspended and resumed, which counts as no restart; Ctrl-C in between leaves it suspended. One that
    has ended is deleted and made anew, and goes on from the newest checkpoint on its volume. Exit status: 1 when the
    pods did not end in time.
    """

    async def work(client: TrainingJobs) -> None:
        def told(step: str) -> None:
            typer.echo(f"{client.namespace}/{job} {step}", err=output is Format.JSON)

        _tell(await client.restart(job, within, told), "restarted", output)

    with_jobs(namespace, context, work)


def delete(
    jobs: JobsArgument,
    output: OutputOption = Format.TABLE,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
) -> None:
    """Delete jobs with their pods.

    The volume claim that a job made stays with its checkpoints, and a job of its name goes on from them, unless
    `whenDeleted: Delete` says otherwise.
    """
    _each(jobs, TrainingJobs.delete, "deleted", output, namespace, context)
