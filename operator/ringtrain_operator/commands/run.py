"""`ringtrain run`."""

import asyncio
import os
import sys
from typing import Annotated

import typer

from ringtrain.contract.faults import Fault, parse_fault
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.commands import exit_status
from ringtrain_operator.commands.options import RUN_DIRECTORIES, DirectoryOption, FileOption
from ringtrain_operator.commands.usage import UsageError, read_job, refuse
from ringtrain_operator.local.gpus import visible_gpus
from ringtrain_operator.local.local_run import Outcome, run_locally
from ringtrain_operator.local.loopback import NoFreeBlock
from ringtrain_operator.local.output import Output
from ringtrain_operator.local.page_view import PortTaken
from ringtrain_operator.local.run_directory import BadRunDirectory, RunDirectory, RunDirectoryLost
from ringtrain_operator.plan.observed import JobKey

_EXIT_STATUS = {
    Outcome.SUCCEEDED: 0,
    Outcome.FAILED: exit_status.FAILED,
    Outcome.INTERRUPTED: exit_status.INTERRUPTED,
}

FaultOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        help="Inject a fault, such as kill:rank=1,round=20. Kinds: kill, stop, hang, exit (with code=N), raise. "
        "It happens once, before any restart (epoch=N: after the Nth). May be repeated.",
        show_default=False,
    ),
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Start over: delete the checkpoints of earlier runs of this job first.")
]
WebOption = Annotated[bool, typer.Option("--web", help="Serve a page about the job, to this machine only.")]
WebPortOption = Annotated[
    int,
    typer.Option("--web-port", min=0, max=65535, help="Port of the page; by default a free one.", show_default=False),
]


def run(
    file: FileOption,
    fault: FaultOption = None,
    directory: DirectoryOption = RUN_DIRECTORIES,
    fresh: FreshOption = False,
    web: WebOption = False,
    web_port: WebPortOption = 0,
) -> None:
    """Run a TrainingJob on this machine, with processes in place of pods.

    Relative paths in the job are taken from the file's folder. The same job in the same directory goes on from its
    checkpoints. Exit status: 0 the job succeeded, 1 it failed, 2 it cannot be run, 130 it was interrupted, or its
    output was closed.
    """
    try:
        if sys.platform != "linux":
            raise UsageError("`ringtrain run` needs Linux: pods are told apart by loopback addresses, and end with it")
        job, spec = read_job(file)
        faults = _faults(fault or [], spec)
        gpus = _gpus(spec)
        with RunDirectory.open(directory / job.name, JobKey(job.namespace, job.name)) as run_directory:
            if fresh:
                run_directory.clear()
            output = Output(sys.stdout.fileno())
            page_port = web_port if web or web_port else None
            outcome = asyncio.run(run_locally(job, spec, run_directory, faults, gpus, output, page_port))
    except UsageError as error:
        raise refuse(*error.lines) from error
    except (BadRunDirectory, NoFreeBlock, PortTaken) as error:
        raise refuse(str(error)) from error
    except RunDirectoryLost as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(_EXIT_STATUS[Outcome.FAILED]) from error
    if outcome is Outcome.INTERRUPTED and output.reader_gone:
        typer.echo("standard output was closed, so the job was stopped: run it again to go on", err=True)
    raise typer.Exit(_EXIT_STATUS[outcome])


def _faults(texts: list[str], spec: TrainingJobSpec) -> tuple[Fault, ...]:
    world = spec.replicas * spec.procs_per_replica
    faults = []
    for text in texts:
        try:
            fault = parse_fault(text)
        except ValueError as error:
            raise UsageError(f"--fault: {error}") from error
        if fault.rank >= world:
            raise UsageError(f"--fault {text}: there is no rank {fault.rank}, the job has ranks 0..{world - 1}")
        faults.append(fault)
    return tuple(faults)


def _gpus(spec: TrainingJobSpec) -> tuple[str, ...]:
    if spec.device == "cpu":
        return ()
    found, wanted = visible_gpus(os.environ), spec.replicas * spec.procs_per_replica
    if not found:
        raise UsageError("this machine has no CUDA GPU: set spec.device to cpu")
    if len(found) < wanted:
        raise UsageError(
            f"the job needs {wanted} GPUs, one for each rank, and this machine has {len(found)}: "
            "lower spec.replicas or spec.procsPerReplica, or set spec.device to cpu"
        )
    return found
