"""What the lines of Ringtrain's logs say about where a recovery's time goes: pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

NOTICE, LEAVE, CONNECT, RESTORE, TRAIN = "notice", "leave and start", "connect", "restore", "first round"
STEPS = (NOTICE, LEAVE, CONNECT, RESTORE, TRAIN)

_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (replica \d+ agent|coordinator) \w+ (.*)")
_OPENED = re.compile(r"generation (\d+\.\d+) \(was None\)")
_CLOSED = re.compile(r"leaving generation|generation None \(was|starting rank \d+ again|the connection to .* is lost")
_PHASE = re.compile(r"rank (\d+): (\w+)")


@dataclass(frozen=True, slots=True)
class Line:
    """Of an agent or of the coordinator."""

    at: float
    """By time.time."""
    text: str

    @property
    def generation(self) -> str:
        """The one that begins; empty for other lines."""
        found = _OPENED.match(self.text)
        return found[1] if found else ""


def parse(text: str) -> Line | None:
    """None for what other processes print."""
    found = _LINE.match(text)
    if found is None:
        return None
    return Line(datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").timestamp(), found[3])


def steps(lines: Sequence[Line], ranks: int, fault_at: float, until: float) -> dict[str, float]:
    """Seconds of each step, of which one ends where the next begins; they add up to all that lies between the two.
    Empty when the lines do not tell."""
    told = sorted((line for line in lines if fault_at <= line.at <= until), key=lambda line: line.at)
    noticed = next((line.at for line in told if _CLOSED.match(line.text)), None)
    opened = max((line.at for line in told if line.generation), default=None)
    if noticed is None or opened is None:
        return {}
    phases: dict[int, list[tuple[str, float]]] = {}
    for line in told:
        found = _PHASE.fullmatch(line.text)
        if found and line.at >= opened:
            phases.setdefault(int(found[1]), []).append((found[2], line.at))
    compiling = [[at for phase, at in each if phase == "compiling"] for each in phases.values()]
    if len(compiling) < ranks or not all(compiling):
        return {}
    ends = (noticed, opened, max(each[0] for each in compiling), max(each[-1] for each in compiling), until)
    begins = (fault_at, *ends)
    return {step: end - begin for step, begin, end in zip(STEPS, begins, ends, strict=False)}
