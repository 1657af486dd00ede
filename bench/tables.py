"""The communication benchmark's table: pure."""

import statistics
from collections.abc import Callable, Iterable

from results import Results, Setting, Trial
from rows import FLOOR, SIXTEEN_BITS, rows

_TITLES = {
    "emulated": "compute emulated: every rank sleeps for the time that it was measured to compute alone",
    "real": "real compute: ranks share this machine's cores for compute, codecs and network",
}


def table(setting: Setting, results: Results) -> str:
    by_row = {name: trials for name in rows() if (trials := results.of(setting, name))}
    tokens = results.config["batch"]["perRank"] * results.config["model"]["contextLength"] * setting.size
    sixteen = by_row.get(SIXTEEN_BITS)
    lines = [
        f"**{setting.machines} machines x {setting.processes}, {_TITLES[setting.compute]}.** "
        f"Links of {results.links[setting.name]:.0f} Mbit/s.{_compute(results) if setting.emulated else ''}",
        "",
        "| row | MB / round, machine | of 16-bit | round, s | exposed, A/B | exposed, meter | codec, s | CPU, s "
        "| tokens/s | trials |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, trials in by_row.items():
        wire = _median(trials, lambda trial: statistics.mean(trial.wire_bytes))
        ratio = f"{wire / _median(sixteen, lambda t: statistics.mean(t.wire_bytes)):.1%}" if sixteen else ""
        seconds = _median(trials, lambda trial: trial.seconds)
        exposed = "" if name == FLOOR else _spread(trials, lambda trial: 100 * trial.exposed_share, "{:.1f}", " %")
        meter = codec = ""
        if trials[0].meter:
            share = _median(trials, lambda t: t.meter["exposed_seconds"] / t.meter["round_seconds"])
            meter, codec = f"{share:.1%}", f"{_median(trials, lambda t: t.meter['inter_codec_seconds']):.2f}"
        lines.append(
            f"| {name} | {wire / 1e6:.2f} | {ratio} | {_spread(trials, lambda trial: trial.seconds, '{:.2f}', '')} "
            f"| {exposed} | {meter} | {codec} | {_median(trials, lambda t: t.cpu):.2f} | {tokens / seconds:.0f} "
            f"| {len(trials)} |"
        )
    return "\n".join(lines) + "\n"


def _compute(results: Results) -> str:
    found = results.profile or {}
    forward, backward = sum(found["forward"]), sum(found["backward"])
    return f" Forward {forward:.2f} s, backward {backward:.2f} s, optimizer {found['optimizer']:.2f} s."


def _median(trials: Iterable[Trial], value: Callable[[Trial], float]) -> float:
    return statistics.median(map(value, trials))


def _spread(trials: Iterable[Trial], value: Callable[[Trial], float], form: str, unit: str) -> str:
    """The median, and the least and greatest if there are several."""
    values = [value(trial) for trial in trials]
    median = form.format(statistics.median(values)) + unit
    return median if len(values) == 1 else f"{median} ({form.format(min(values))} .. {form.format(max(values))})"
