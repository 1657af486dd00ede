"""What the recovery benchmark measured, kept in a file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

RANKS = 4
RINGTRAIN = "Ringtrain"
TORCHRUN = "torchrun"
TORCHFT = "torchft"
SYSTEMS = (RINGTRAIN, TORCHRUN, TORCHFT)

KILL = "SIGKILL of rank 2"
KILL_FIRST = "SIGKILL of rank 0"
STOP = "SIGSTOP of rank 2"
KILL_POD = "loss of pod 2"
KILL_FIRST_POD = "loss of pod 0, with the coordinator"
KILL_COORDINATOR = "SIGKILL of the coordinator"
FAULTS = (KILL, KILL_FIRST, STOP)
"""That every system has."""
OWN_FAULTS = (KILL_POD, KILL_FIRST_POD, KILL_COORDINATOR)

DELETE_POD = "kubectl delete pod"
LOSE_NODE = "loss of a node"
CLUSTER_FAULTS = (DELETE_POD, LOSE_NODE)
"""On a cluster, that every system has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    system: str
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One fault. Seconds are counted from it."""

    any_size: float | None
    """Until a round was finished by other members than before, or with another process; None: not in time."""
    full_size: float | None
    """Until one was finished by as many ranks as before."""
    lost: int
    """Rounds that had been finished and were done again."""
    round_seconds: float
    """Median of the rounds before."""
    steps: dict[str, float] = field(default_factory=dict)
    """Where the time until `full_size` went, where the system tells."""
    load: float
    """Average of the last minute, on the machine that all this ran on."""


@dataclass(slots=True)
class Results:
    path: Path | None
    rows: dict[Row, list[Trial]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> Self:
        """What is in the file, if it is there."""
        if path is None or not path.exists():
            return cls(path)
        found = json.loads(path.read_text())
        return cls(path, {Row(**each["row"]): [Trial(**trial) for trial in each["trials"]] for each in found})

    def of(self, row: Row) -> list[Trial]:
        return self.rows.setdefault(row, [])

    def save(self) -> None:
        if self.path is None:
            return
        value = [{"row": asdict(row), "trials": list(map(asdict, trials))} for row, trials in self.rows.items()]
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(value, indent=1) + "\n")
        written.replace(self.path)
