"""What the communication benchmark measured, kept in a file."""

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from ringtrain.contract.trainer_config import TrainerConfig

Compute = Literal["emulated", "real"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a table is of."""

    machines: int
    processes: int
    """On each machine."""
    compute: Compute

    @property
    def name(self) -> str:
        return f"{self.machines}x{self.processes} {self.compute}"

    @classmethod
    def named(cls, name: str) -> Self:
        layout, compute = name.split(" ")
        machines, processes = map(int, layout.split("x"))
        return cls(machines, processes, "emulated" if compute == "emulated" else "real")

    @property
    def emulated(self) -> bool:
        return self.compute == "emulated"

    @property
    def size(self) -> int:
        return self.machines * self.processes


@dataclass(frozen=True, slots=True)
class Trial:
    """Some rounds of one row. Seconds and bytes are of one round."""

    setting: str
    row: str
    megabit: float | None
    floor: float | None
    """Round time of the row that sends nothing, measured in the same cycle; just before, if compute is real."""
    rounds: list[float]
    """Seconds of each round on the rank that took longest."""
    wire_bytes: list[float]
    """By machine."""
    dropped: int
    load: float
    """Average of the last minute, on the machine that all this ran on."""
    cpu: float
    """Seconds of one rank's process, mean over ranks."""
    meter: dict[str, float]
    """Of our rows: mean over ranks."""

    @classmethod
    def of(cls, *, answers: list[dict[str, Any]], **rest: Any) -> Self:
        measured = {name: statistics.mean(each[name] for each in answers) for name in answers[0] if name != "seconds"}
        rounds = [max(seconds) for seconds in zip(*(each["seconds"] for each in answers), strict=True)]
        return cls(rounds=rounds, cpu=measured.pop("cpu"), meter=measured, **rest)

    @property
    def seconds(self) -> float:
        return statistics.median(self.rounds)

    @property
    def exposed_seconds(self) -> float:
        return self.seconds - (self.floor or self.seconds)

    @property
    def exposed_share(self) -> float:
        return self.exposed_seconds / self.seconds

    def line(self) -> str:
        """For whoever waits."""
        speed = "unshaped" if self.megabit is None else f"{self.megabit:.0f} Mbit/s"
        return (
            f"{self.setting} {self.row} at {speed}: {self.seconds:.3f} s a round, exposed {self.exposed_share:.1%}, "
            f"{max(self.wire_bytes) / 1e6:.2f} MB, load {self.load:.1f}"
        )


@dataclass(slots=True)
class Results:
    path: Path | None
    config: dict[str, Any]
    profile: dict[str, Any] | None = None
    """emulate.Profile: how long a rank computes, the same in all layouts."""
    links: dict[str, float] = field(default_factory=dict)
    """Mbit/s, by setting."""
    trials: list[Trial] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path | None, config: TrainerConfig) -> Self:
        """What is in the file, if it is there. Raises ValueError when it is of another model or batch."""
        wanted = config.model_dump(mode="json", by_alias=True)
        if path is None or not path.exists():
            return cls(path, wanted)
        saved = json.loads(path.read_text())
        if saved["config"] != wanted:
            raise ValueError(f"{path} is of another model or batch: name another file, or give the same settings")
        trials = [Trial(**value) for value in saved["trials"]]
        return cls(path, wanted, saved["profile"], saved["links"], trials)

    def of(self, setting: Setting, row: str) -> list[Trial]:
        return [trial for trial in self.trials if (trial.setting, trial.row) == (setting.name, row)]

    def cycles(self, setting: Setting, row: str) -> int:
        return len(self.of(setting, row))

    def add(self, trial: Trial) -> None:
        self.trials.append(trial)
        self.save()

    def save(self) -> None:
        if self.path is None:
            return
        value = {
            "config": self.config,
            "profile": self.profile,
            "links": self.links,
            "trials": [asdict(trial) for trial in self.trials],
        }
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(value, indent=1) + "\n")
        written.replace(self.path)
