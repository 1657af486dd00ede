"""One run of a TrainingJob on this machine, from its introduction to its summary."""

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path

from rich.console import Console

from ringtrain.contract.faults import Fault
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import TERMINAL, JobPhase, TrainingJobStatus
from ringtrain_operator.local.cluster import LocalCluster
from ringtrain_operator.local.container import Machine
from ringtrain_operator.local.ignored import ignored_fields, without_ignored
from ringtrain_operator.local.job_file import ANY_IMAGE, JobFile
from ringtrain_operator.local.loopback import LoopbackBlock
from ringtrain_operator.local.output import Output
from ringtrain_operator.local.page_view import with_page
from ringtrain_operator.local.run_directory import RunDirectory
from ringtrain_operator.local.runner import Interrupt, run_job
from ringtrain_operator.local.snapshot import History
from ringtrain_operator.local.summary import final_digest, summary, tail
from ringtrain_operator.local.view import LineView, LiveView, View
from ringtrain_operator.plan.observed import JobKey


class Outcome(Enum):
    SUCCEEDED = auto()
    FAILED = auto()
    INTERRUPTED = auto()


async def run_locally(
    job: JobFile,
    spec: TrainingJobSpec,
    directory: RunDirectory,
    faults: Sequence[Fault],
    gpus: tuple[str, ...],
    output: Output,
    page_port: int | None = None,
) -> Outcome:
    """With a page about the job on loopback, where a port is given for it (0: a free one). Raises NoFreeBlock,
    PortTaken, BadRunDirectory when an earlier run's status cannot be read, and RunDirectoryLost."""
    console = Console(file=output.text(), highlight=False)
    key = JobKey(job.namespace, job.name)
    earlier = directory.read_status()
    # Above all epochs of an earlier run, so that its checkpoints count as older than any new one.
    first_epoch = earlier.epoch + 1 if earlier else 0
    block = LoopbackBlock(random.Random())
    view: View = LiveView(console, job.name) if console.is_terminal else LineView(console)
    try:
        machine = Machine(
            addresses=block.addresses,
            checkpoints=directory.checkpoints,
            faults=tuple(_from_epoch(first_epoch, fault) for fault in faults),
            gpus=gpus,
            base_environment=os.environ,
        )
        cluster = LocalCluster(
            key,
            without_ignored({**ANY_IMAGE, **job.spec}),
            TrainingJobStatus(epoch=first_epoch),
            directory,
            machine,
            job.path.parent.resolve(),
            view.event,
        )
        _introduce(view, job, spec, directory, earlier)
        interrupt = Interrupt(cluster.changed, output)
        async with with_page(view, key, page_port) as seen:
            with interrupt.listening():
                history = await run_job(cluster, key, seen, interrupt)
    finally:
        view.close()
        block.close()
    _conclude(console, cluster, history, directory.checkpoints if spec.checkpoint else None)
    if cluster.status.phase in TERMINAL:
        return Outcome.SUCCEEDED if cluster.status.phase is JobPhase.SUCCEEDED else Outcome.FAILED
    return Outcome.INTERRUPTED if interrupt.asked else Outcome.FAILED


def _from_epoch(first: int, fault: Fault) -> Fault:
    """Users count epochs from the beginning of this run."""
    return replace(fault, epoch=fault.epoch + first)


def _introduce(
    view: View, job: JobFile, spec: TrainingJobSpec, directory: RunDirectory, earlier: TrainingJobStatus | None
) -> None:
    ranks = spec.replicas * spec.procs_per_replica
    view.note(f"job {job.name}: {spec.replicas} replicas, {ranks} ranks on {spec.device}, in {directory.root}")
    unused = ignored_fields(spec)
    if unused:
        view.note(f"not used on one machine: {', '.join(unused)}")
    if job.ignored:
        view.note(f"not used on one machine: the file's objects of kind {', '.join(job.ignored)}")
    view.note(_past(spec, directory, earlier))


def _past(spec: TrainingJobSpec, directory: RunDirectory, earlier: TrainingJobStatus | None) -> str:
    """Where this run begins."""
    if spec.checkpoint is None:
        return "spec.checkpoint is not set: a failure starts the job over from round 0"
    if earlier is None or not directory.has_checkpoints:
        return "no checkpoint yet: starting from round 0"
    finished = earlier.phase is JobPhase.SUCCEEDED and (spec.trainer is None or spec.trainer.rounds <= earlier.round)
    past = (
        "this job is finished already, by an earlier run" if finished else "going on from an earlier run's checkpoints"
    )
    return f"{past} (--fresh starts over)"


def _conclude(console: Console, cluster: LocalCluster, history: History, checkpoints: Path | None) -> None:
    status = cluster.status
    if status.phase is JobPhase.FAILED and status.failures:
        log = cluster.log_of(status.failures[-1].pod)
        console.out(f"\nlast lines of {log}:", *(f"  {line}" for line in tail(log)), sep="\n", highlight=False)
    rank_0 = [cluster.log_of(pod.name) for pod in cluster.pods if pod.index == 0 and pod.exit_code == 0]
    digest = final_digest(rank_0[-1]) if rank_0 else None
    console.out("", *summary(status, history, checkpoints, digest), sep="\n", highlight=False)
