"""What the checkpoint benchmark measured, kept in a file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

EVERY = 5
"""Rounds between two saves to disk: Ringtrain's default. A cycle's first round ends with one."""
FLOOR = "no checkpoints"
RINGTRAIN = "Ringtrain, as by default"
RINGTRAIN_VOLUME = "Ringtrain, volume alone"
RINGTRAIN_MEMORY = "Ringtrain, memory alone"
TORCH_SAVE = "torch.save"
DCP_SAVE = "DCP save"
DCP_ASYNC = "DCP async_save"
DCP_ASYNC_STAGING = "DCP async_save, async staging"
DCP_PROCESS = "DCP async_save, process"
WAYS = (
    FLOOR, TORCH_SAVE, DCP_SAVE, DCP_ASYNC, DCP_ASYNC_STAGING, DCP_PROCESS, RINGTRAIN_VOLUME, RINGTRAIN_MEMORY,
    RINGTRAIN,
)  # fmt: skip
OURS = (RINGTRAIN_VOLUME, RINGTRAIN_MEMORY, RINGTRAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to save, and what is trained meanwhile."""

    ranks: int
    way: str
    layers: int = 7
    width: int = 512
    heads: int = 8
    per_rank: int = 4
    """Sequences of a rank in each round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Some rounds of one row."""

    seconds: list[float]
    """Each round's, on the rank that took longest, what saving took included."""
    stalls: list[float]
    """Of these: in which the training thread saved, or waited for it; on the rank that took longest."""
    saved: list[bool]
    """Whether something was saved at the round's end."""
    writes: list[float]
    """Of each save to disk: seconds from its start until all of it was flushed."""
    bytes: int
    """Of one checkpoint on disk."""
    load: float
    """Average of the last minute, on the machine that all this ran on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """What is measured of one row's processes beside the cycles."""

    parameters: int
    first_stall: float
    """Seconds of the first save."""
    peak_bytes: int
    """Of all ranks together, and the processes that they started; a page that several share counts once."""
    restores: list[float]
    """Seconds until the slowest of new processes had its model and optimizer back, several times: at first memory is
    new to them. Empty where there is no checkpoint."""


@dataclass(slots=True)
class Measured:
    cycles: list[Cycle] = field(default_factory=list)
    once: list[Once] = field(default_factory=list)


@dataclass(slots=True)
class Results:
    path: Path | None
    rows: dict[Row, Measured] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> Self:
        """What is in the file, if it is there."""
        if path is None or not path.exists():
            return cls(path)
        return cls(path, {Row(**value["row"]): _measured(value) for value in json.loads(path.read_text())})

    def of(self, row: Row) -> Measured:
        return self.rows.setdefault(row, Measured())

    def save(self) -> None:
        if self.path is None:
            return
        value = [{"row": asdict(row), **asdict(measured)} for row, measured in self.rows.items()]
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(value, indent=1) + "\n")
        written.replace(self.path)


def _measured(value: dict[str, Any]) -> Measured:
    return Measured([Cycle(**each) for each in value["cycles"]], [Once(**each) for each in value["once"]])
