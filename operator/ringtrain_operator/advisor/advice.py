"""Which codec and algorithm pay off: pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ringtrain.contract.communication import Algorithm
from ringtrain_operator.advisor.formats import BF16, NONE, Format, int4, zfp
from ringtrain_operator.advisor.layout import Parameter, buckets
from ringtrain_operator.advisor.model import Hardware, Prediction, Setting, predict

MARGIN = 0.05
"""Of a round's time: less than that, the model cannot tell, and the choice with less noise is taken."""
GPUS = (8, 64, 512, 4096)
"""For which a job is extrapolated."""
_BUCKETS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
"""bucketMiB that are tried."""


@dataclass(frozen=True, slots=True)
class Choice:
    format: Format
    algorithm: Algorithm

    def __str__(self) -> str:
        return f"{self.format.name} {self.algorithm}"


ALGORITHMS: tuple[Algorithm, ...] = ("ring", "direct")
CHOICES = tuple(
    Choice(written, algorithm)
    for written in (NONE, BF16, zfp(8), zfp(6), zfp(5), zfp(4), int4(128))
    for algorithm in ALGORITHMS
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a job has each process do, on however many machines: more machines train on more tokens a round."""

    parameters: Sequence[Parameter]
    """In the model's order."""
    bucket_mebibytes: float
    processes: int
    """Of each machine."""
    hardware: Hardware
    compute_seconds: float
    accumulation: int = 1
    overlap: bool = True

    def predict(self, machines: int, choice: Choice) -> Prediction:
        return predict(
            Setting(
                buckets=buckets(self.parameters, self.bucket_mebibytes),
                machines=machines,
                processes=self.processes,
                algorithm=choice.algorithm,
                format=choice.format,
                hardware=self.hardware,
                compute_seconds=self.compute_seconds,
                accumulation=self.accumulation,
                overlap=self.overlap,
            )
        )


@dataclass(frozen=True, slots=True)
class Row:
    choice: Choice
    prediction: Prediction

    @property
    def seconds(self) -> float:
        return self.prediction.round_seconds


@dataclass(frozen=True, slots=True)
class Advice:
    machines: int
    rows: tuple[Row, ...]
    best: Row
    plain: Row
    """The fastest without a lossy codec."""
    sentence: str
    reasons: tuple[str, ...]

    @property
    def pays(self) -> bool:
        """Some lossy codec does."""
        return self.best.choice.format.lossy


def advise(workload: Workload, machines: int, maximum_error: float, own: Choice | None = None) -> Advice:
    """`own` is what the job has now. Choices with more noise than `maximum_error` (see `Prediction.error`) are not
    advised."""
    choices = list(CHOICES)
    if own is not None and own not in choices:
        choices.append(own)
    rows = tuple(Row(choice, workload.predict(machines, choice)) for choice in choices)
    quiet = [row for row in rows if row.prediction.error <= maximum_error]
    fastest = min(row.seconds for row in quiet)
    near = [row for row in quiet if row.seconds * (1 - MARGIN) <= fastest]
    best = min(near, key=lambda row: (row.prediction.error, row.seconds))
    plain = min((row for row in rows if not row.choice.format.lossy), key=lambda row: row.seconds)
    noisy = [row for row in rows if row.prediction.error > maximum_error and row.seconds < best.seconds]
    advice = Advice(machines, rows, best, plain, _sentence(machines, rows, best, plain, maximum_error), ())
    return replace(advice, reasons=tuple(_reasons(workload, advice, noisy, maximum_error)))


def extrapolate(workload: Workload, maximum_error: float) -> tuple[tuple[int, Advice], ...]:
    """(GPUs, advice) for growing numbers of them, in machines as full as the job's."""
    found = []
    for wanted in GPUS:
        processes = min(workload.processes, wanted)
        machines = max(1, round(wanted / processes))
        advice = advise(replace(workload, processes=processes), machines, maximum_error)
        found.append((machines * processes, advice))
    return tuple(found)


def duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.01 else f"{100 * share:.0f} %"


def _told(row: Row) -> str:
    return f"{duration(row.seconds)}, {percent(row.prediction.exposed_share)} of it exposed communication"


def _fields(choice: Choice) -> str:
    """As they stand in spec.communication."""
    name, _, rest = choice.format.name.partition("-")
    setting = {"zfp": f", rate {rest}", "int4": f", block {rest.removesuffix('-rotated')}"}.get(name, "")
    return f"codec {name}{setting}, algorithm {choice.algorithm}"


def _sentence(machines: int, rows: Sequence[Row], best: Row, plain: Row, maximum_error: float) -> str:
    if machines == 1:
        return f"One machine sends nothing to others, so no codec pays off: a round takes {_told(best)}."
    if best.choice.format.lossy:
        return (
            f"Use {_fields(best.choice)}: a round takes {_told(best)}, and without a lossy codec "
            f"({plain.choice}) {_told(plain)}."
        )
    quiet = [row for row in rows if row.choice.format.lossy and row.prediction.error <= maximum_error]
    lossy = min(quiet, key=lambda row: row.seconds, default=None)
    other = f"; the best lossy codec ({lossy.choice}) takes {_told(lossy)}" if lossy else ""
    return f"No lossy codec pays off: with {_fields(best.choice)} a round takes {_told(best)}{other}."


def _reasons(workload: Workload, advice: Advice, noisy: Sequence[Row], maximum_error: float) -> list[str]:
    found = []
    if noisy:
        names = ", ".join(f"{row.choice} ({percent(row.prediction.error)})" for row in noisy)
        found.append(
            f"faster, but with noise above {percent(maximum_error)} of the summed gradients: {names}; in a ring noise "
            "grows with the machines, direct it does not"
        )
    lossy = [row for row in advice.rows if row.choice.format.lossy]
    held_back = [row for row in lossy if row.prediction.limit == "codec"]
    if held_back:
        names = "all lossy rows" if held_back == lossy else ", ".join(str(row.choice) for row in held_back)
        found.append(
            f"the codec, taken as the CPU's, is the limit of {names}: measure yours (bench/codec.py) and give it as "
            "--codec-speed; on GPUs it encodes there, which has not been measured"
        )
    bucket, seconds = _better_bucket(workload, advice)
    if seconds < advice.best.seconds * (1 - MARGIN):
        found.append(
            f"with bucketMiB {bucket:g} in place of {workload.bucket_mebibytes:g} it takes {duration(seconds)}"
        )
    return found


def _better_bucket(workload: Workload, advice: Advice) -> tuple[float, float]:
    """(bucketMiB, seconds of the round) at which the best choice is fastest."""
    tried = [
        (replace(workload, bucket_mebibytes=size).predict(advice.machines, advice.best.choice).round_seconds, size)
        for size in _BUCKETS
    ]
    seconds, size = min(tried)
    return size, seconds
