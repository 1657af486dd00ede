"""The recovery benchmark's tables: pure."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from recovery_results import CLUSTER_FAULTS, FAULTS, OWN_FAULTS, RINGTRAIN, SYSTEMS, Row, Trial
from recovery_steps import STEPS

_ORDER = (*FAULTS, *OWN_FAULTS, *CLUSTER_FAULTS)


def tables(rows: Mapping[Row, Sequence[Trial]]) -> Iterator[str]:
    yield "\n".join(_systems(rows))
    yield "\n".join(_steps(rows))


def _systems(rows: Mapping[Row, Sequence[Trial]]) -> Iterator[str]:
    yield "| fault | system | next round at any size, s | at full size, s | rounds lost | a round, s | trials | load |"
    yield "|---|---|---|---|---|---|---|---|"
    for fault in _ORDER:
        for system in SYSTEMS:
            trials = rows.get(Row(system=system, fault=fault), ())
            if trials:
                yield f"| {fault} | {system} | {' | '.join(_cells(trials))} |"


def _cells(trials: Sequence[Trial]) -> Iterator[str]:
    yield _spread([trial.any_size for trial in trials])
    yield _spread([trial.full_size for trial in trials])
    yield _spread([trial.lost for trial in trials], "{:.0f}")
    yield _spread([trial.round_seconds for trial in trials])
    yield str(len(trials))
    yield _spread([trial.load for trial in trials], "{:.1f}")


def _steps(rows: Mapping[Row, Sequence[Trial]]) -> Iterator[str]:
    yield f"| {RINGTRAIN}, seconds | {' | '.join(STEPS)} |"
    yield "|---|" + "---|" * len(STEPS)
    for fault in _ORDER:
        told = [trial.steps for trial in rows.get(Row(system=RINGTRAIN, fault=fault), ()) if trial.steps]
        if told:
            yield f"| {fault} | {' | '.join(_spread([each[step] for each in told]) for step in STEPS)} |"


def _spread(values: Sequence[float | None], form: str = "{:.2f}") -> str:
    """The median, and the least and greatest where they differ; `never` counts as the greatest."""
    known = sorted(float("inf") if value is None else value for value in values)
    low, middle, high = (_text(value, form) for value in (known[0], statistics.median_high(known), known[-1]))
    return middle if low == high else f"{middle} ({low} .. {high})"


def _text(value: float, form: str) -> str:
    return "never" if value == float("inf") else form.format(value)
