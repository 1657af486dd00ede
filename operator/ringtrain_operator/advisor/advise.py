"""`ringtrain advise`."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from ringtrain.contract.communication import BUCKET_MEBIBYTES, CommunicationConfig
from ringtrain_operator.advisor import links
from ringtrain_operator.advisor.advice import Advice, Choice, Workload, advise, extrapolate
from ringtrain_operator.advisor.document import document
from ringtrain_operator.advisor.formats import format_of
from ringtrain_operator.advisor.layout import BYTES_VOCABULARY, Parameter, built_in, typical
from ringtrain_operator.advisor.model import Hardware
from ringtrain_operator.advisor.tables import choices, growth, show
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.commands.options import Format, OutputOption
from ringtrain_operator.commands.show import Screen
from ringtrain_operator.commands.usage import UsageError, read_job, refuse

_PROCESSES = 8
_GPU_TFLOPS = 312.0
_GPU_INSIDE, _CPU_INSIDE = "200GB", "2GB"
_MAXIMUM_ERROR = 1 / 3
_SENSIBLE = (1e-9, 1e9)
"""Beyond, times would not be finite, or of no use."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Options:
    machines: int | None
    processes: int | None
    parameters: str | None
    vocabulary: int | None
    tokens: int | None
    compute_seconds: float | None
    tflops: float | None
    utilisation: float
    bucket_mebibytes: float | None


def advise_command(
    link: Annotated[str, typer.Option("--link", help="Speed of each machine's network, such as 25Gbit.")],
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="YAML file with one TrainingJob.", show_default=False)
    ] = None,
    machines: Annotated[int | None, typer.Option(min=1, max=10**6, help="Instead of the job's replicas.")] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Of each machine: one a GPU. Instead of the job's procsPerReplica."),
    ] = None,
    parameters: Annotated[
        str | None, typer.Option(help="Of the model, such as 7e9 or 7B. Instead of the job's built-in model's.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(min=1, max=10**9, help="Tokens that the job's tokenizer file has, the mask included.")
    ] = None,
    compute_seconds: Annotated[
        float | None, typer.Option(help="Of a round without communication, measured. Else it is estimated.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, max=10**12, help="That one GPU trains on in a round. Instead of the job's.")
    ] = None,
    tflops: Annotated[float | None, typer.Option(help="Of one GPU at its peak, to estimate compute.")] = None,
    mfu: Annotated[float, typer.Option(help="Share of the peak that training reaches.")] = 0.4,
    latency: Annotated[
        str, typer.Option(help="Of a small message between machines, Gloo's threads included.")
    ] = "200us",
    inside: Annotated[
        str | None, typer.Option(help="Speed between the GPUs of a machine, each way, such as 200GB or 20GB.")
    ] = None,
    host: Annotated[str, typer.Option(help="Speed between a GPU and memory.")] = "20GB",
    codec_speed: Annotated[
        float, typer.Option(help="GB of float32 that a thread encodes, and decodes, in a second by a lossy codec.")
    ] = 1.0,
    bucket_mib: Annotated[float | None, typer.Option(help="Instead of the job's bucketMiB.")] = None,
    cores: Annotated[
        int, typer.Option(min=1, max=1000, help="CPU cores of each process that are free for codecs.")
    ] = 2,
    max_noise: Annotated[
        float, typer.Option(help="Most noise to advise, as a share of the summed gradients.", show_default="a third")
    ] = _MAXIMUM_ERROR,
    output: OutputOption = Format.TABLE,
) -> None:
    """Predict a round's time and communication, and say which codec and algorithm pay off, if any.

    By a model, not by measuring: docs/advisor.md has its formulas and what it leaves out. Exit status: 0, or 2 when an
    option or the job cannot be used.
    """
    try:
        spec = read_job(file)[1] if file is not None else None
        given = _Options(machines, processes, parameters, vocabulary, tokens, compute_seconds, tflops, mfu, bucket_mib)
        gpus = spec is None or spec.device == "cuda"
        hardware = Hardware(
            link_bits=_parsed("--link", link, links.bits_a_second),
            latency=_parsed("--latency", latency, links.seconds),
            inside_bytes=_parsed("--inside", inside or (_GPU_INSIDE if gpus else _CPU_INSIDE), links.bits_a_second) / 8,
            host_bytes=_parsed("--host", host, links.bits_a_second) / 8 if gpus else math.inf,
            codec_bytes=1e9 * _within("--codec-speed", codec_speed),
            cores=cores,
        )
        job = _Job.of(spec, given, hardware)
        limit = _within("--max-noise", max_noise)
    except UsageError as error:
        raise refuse(*error.lines) from error
    advice = advise(job.workload, job.machines, limit, job.own)
    grown = extrapolate(job.workload, limit)
    if output is Format.JSON:
        Screen().json(document(advice, job.own, grown, job.assumed))
    else:
        _print(job, advice, grown)


@dataclass(frozen=True, slots=True)
class _Job:
    workload: Workload
    machines: int
    own: Choice | None
    assumed: tuple[str, ...]

    @classmethod
    def of(cls, spec: TrainingJobSpec | None, given: _Options, hardware: Hardware) -> "_Job":
        machines = given.machines or (spec.replicas if spec else None)
        if machines is None:
            raise UsageError("--machines is missing: give it, or a job with --file")
        processes = given.processes or (spec.procs_per_replica if spec else _PROCESSES)
        communication = spec.communication if spec else CommunicationConfig()
        parameters, model = _parameters(spec, given)
        compute, computed = _compute(spec, given, sum(parameter.values for parameter in parameters))
        trainer = spec.trainer if spec else None
        bucket = given.bucket_mebibytes
        workload = Workload(
            parameters=parameters,
            bucket_mebibytes=communication.bucket_mebibytes
            if bucket is None
            else _within("--bucket-mib", bucket, BUCKET_MEBIBYTES),
            processes=processes,
            hardware=hardware,
            compute_seconds=compute,
            accumulation=trainer.batch.accumulation if trainer else 1,
            overlap=communication.overlap,
        )
        own = Choice(format_of(communication), communication.chosen_algorithm) if spec else None
        return cls(workload, machines, own, (model, computed, *_assumptions(workload)))


def _print(job: _Job, advice: Advice, grown: Sequence[tuple[int, Advice]]) -> None:
    console = Console(file=sys.stdout, highlight=False)
    plain = not console.is_terminal
    for line in job.assumed:
        console.print(line, markup=False, style=None if plain else "dim", soft_wrap=plain)
    show(console, choices(advice, job.own))
    show(console, growth(grown))
    for reason in advice.reasons:
        console.print(f"- {reason}", markup=False, soft_wrap=plain)
    console.print(advice.sentence, markup=False, style=None if plain else "bold", soft_wrap=plain)


def _parameters(spec: TrainingJobSpec | None, given: _Options) -> tuple[tuple[Parameter, ...], str]:
    """With how they are known."""
    if given.parameters is not None:
        number = _parsed("--parameters", given.parameters, links.count)
        return typical(number), f"model: {number:,} parameters, in matrices of the usual proportions"
    if spec is None or spec.trainer is None:
        reason = "there is no job" if spec is None else "the job's model is its command's"
        raise UsageError(f"--parameters is missing, and {reason}: give the model's parameters, such as 7e9")
    vocabulary = given.vocabulary or BYTES_VOCABULARY
    if given.vocabulary is None and spec.trainer.data.tokenizer != "bytes":
        raise UsageError(
            f"--vocabulary is missing: say how many tokens {spec.trainer.data.tokenizer} has, the mask included"
        )
    found = built_in(spec.trainer.model, vocabulary)
    number = sum(parameter.values for parameter in found)
    return found, f"model: {number:,} parameters, the job's {spec.trainer.model.kind} {spec.trainer.model.size}"


def _compute(spec: TrainingJobSpec | None, given: _Options, parameters: int) -> tuple[float, str]:
    """Seconds of a round, with how they are known."""
    if given.compute_seconds is not None:
        found = _within("--compute-seconds", given.compute_seconds)
        return found, f"compute: {found:g} s a round, as given"
    tflops = given.tflops
    if tflops is None:
        if spec is not None and spec.device == "cpu":
            raise UsageError(
                "--compute-seconds is missing: measure a round, or give --tflops of the CPUs that rank has"
            )
        tflops = _GPU_TFLOPS
    tokens = given.tokens
    if tokens is None:
        if spec is None or spec.trainer is None:
            raise UsageError("--tokens is missing: say on how many a GPU trains in a round, or give --compute-seconds")
        batch = spec.trainer.batch
        tokens = batch.per_rank * batch.accumulation * spec.trainer.model.context_length
    share = _within("--mfu", given.utilisation, (0.001, 1))
    found = 6 * parameters * tokens / (_within("--tflops", tflops) * 1e12 * share)
    return found, (
        f"compute: {found:.4g} s a round = 6 x parameters x {tokens:,} tokens of a GPU / ({tflops:g} TFLOP/s x "
        f"{share:g}); measure it and give --compute-seconds"
    )


def _assumptions(workload: Workload) -> tuple[str, ...]:
    hardware = workload.hardware
    host = "" if math.isinf(hardware.host_bytes) else f", {hardware.host_bytes / 1e9:g} GB/s between GPU and memory"
    return (
        f"network: {hardware.link_bits / 1e9:g} Gbit/s each way for each machine, {hardware.latency * 1e6:g} us a "
        f"message; processes a machine: {workload.processes}; between them {hardware.inside_bytes / 1e9:g} GB/s{host}",
        f"codec: {hardware.codec_bytes / 1e9:g} GB/s of float32 a thread, on the CPU, cores for it a process: "
        f"{hardware.cores}; buckets: {workload.bucket_mebibytes:g} MiB",
    )


def _parsed(option: str, text: str, parse: Callable[[str], Value]) -> Value:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option} {error}") from error


def _within(option: str, value: float, bounds: tuple[float, float] = _SENSIBLE) -> float:
    least, most = bounds
    if not least <= value <= most:
        raise UsageError(f"{option} {value:g}: must be from {least:g} to {most:g}")
    return value
