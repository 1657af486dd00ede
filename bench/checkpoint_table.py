"""The checkpoint benchmark's tables: pure."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from checkpoint_results import EVERY, FLOOR, Cycle, Measured, Row

_HEAD = (
    "| way | stall of a save, ms | stall, of training | rounds longer, A/B | next round longer, ms | saves "
    "| flushed after, s | to disk, MB/s | first save, ms | restore, s | memory, MB |"
)


def tables(rows: Mapping[Row, Measured]) -> Iterator[str]:
    """One for each setting that has a floor."""
    for floor, measured in rows.items():
        if floor.way == FLOOR and measured.cycles and measured.once:
            yield "\n".join(_table(floor, rows))


def _table(floor: Row, rows: Mapping[Row, Measured]) -> Iterator[str]:
    base = rows[floor]
    round_seconds = _spread([statistics.median(cycle.seconds) for cycle in base.cycles], "{:.3f}")
    sizes = [cycle.bytes for row, found in rows.items() if _same(row, floor) for cycle in found.cycles]
    yield (
        f"**{floor.ranks} rank{'s' if floor.ranks > 1 else ''}.** {base.once[0].parameters / 1e6:.1f} M parameters, "
        f"checkpoints of {max(sizes) / 1e6:.0f} MB, a round without any {round_seconds} s."
    )
    yield ""
    yield _HEAD
    yield "|---|" + "---|" * 10
    for row, found in rows.items():
        if _same(row, floor) and row.way != FLOOR and found.cycles:
            yield _line(row, found, base)


def _line(row: Row, found: Measured, base: Measured) -> str:
    cycles, once = found.cycles, found.once
    stalls = [stall for cycle in cycles for stall, saved in zip(cycle.stalls, cycle.saved, strict=True) if saved]
    saves = sum(sum(cycle.saved) for cycle in cycles)
    writes = [seconds for cycle in cycles for seconds in cycle.writes]
    longer = [_longer(own, none) for own, none in zip(cycles, base.cycles, strict=False)]
    restores = [seconds for each in once for seconds in each.restores]
    cells = [
        _spread([1e3 * stall for stall in stalls], "{:.0f}"),
        _spread([100 * sum(cycle.stalls) / sum(cycle.seconds) for cycle in cycles], "{:.2f}", " %"),
        _spread([100 * share for share in longer], "{:.1f}", " %"),
        _spread([1e3 * _next_longer(cycle) for cycle in cycles if cycle.writes], "{:.0f}"),
        str(saves),
        _spread(writes, "{:.2f}"),
        _spread([cycles[0].bytes / seconds / 1e6 for seconds in writes], "{:.0f}"),
        _spread([1e3 * each.first_stall for each in once], "{:.0f}"),
        _spread(restores, "{:.2f}"),
        _spread([(each.peak_bytes - _peak(base)) / 1e6 for each in once], "{:.0f}"),
    ]
    return f"| {row.way} | {' | '.join(cells)} |"


def _same(row: Row, floor: Row) -> bool:
    """Whether all but the way is."""
    return replace(row, way=FLOOR) == floor


def _longer(own: Cycle, none: Cycle) -> float:
    """By which share. Some rounds pay for a save, and others for its writing: their mean counts. Without saves all
    rounds are the same, but for what else the machine does."""
    return statistics.mean(own.seconds) / statistics.median(none.seconds) - 1


def _next_longer(cycle: Cycle) -> float:
    """Seconds by which a round is longer that begins with a save to disk still being written, than the later ones of
    the same process, which differs from others by more than that."""
    by_place = [cycle.seconds[place::EVERY] for place in range(EVERY)]
    return statistics.mean(by_place[1]) - statistics.median(chain.from_iterable(by_place[2:]))


def _peak(measured: Measured) -> float:
    return statistics.median(each.peak_bytes for each in measured.once)


def _spread(values: Sequence[float], form: str, unit: str = "") -> str:
    """The median, and the least and greatest if there are several; nothing of nothing."""
    if not values:
        return ""
    median = form.format(statistics.median(values)) + unit
    return median if len(values) == 1 else f"{median} ({form.format(min(values))} .. {form.format(max(values))})"
