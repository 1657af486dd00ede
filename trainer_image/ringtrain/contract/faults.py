"""The vocabulary of injected faults, shared by the command line and by unit, local and cluster tests.

`kill:rank=1,round=20` (SIGKILL itself), `stop:...` (SIGSTOP), `hang:...` (loops for ever), `exit:...,code=78`,
`raise:...` (an exception in the training code), `slow:...` (from that round on each takes half a second longer). A
fault happens at the start of its round, in the generations of one epoch only (0 unless `epoch=` says otherwise), so
that a replayed round does not repeat it. Round 0 is the pre-flight check: there a fault strikes its matrix product
(`slow:` by two seconds), and `wrong:rank=1,round=0` makes that come out wrong.
"""

from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    KILL = "kill"
    STOP = "stop"
    HANG = "hang"
    EXIT = "exit"
    RAISE = "raise"
    SLOW = "slow"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    rank: int
    round: int
    epoch: int = 0
    code: int = 1

    def __str__(self) -> str:
        code = f",code={self.code}" if self.kind is FaultKind.EXIT else ""
        return f"{self.kind}:rank={self.rank},round={self.round},epoch={self.epoch}{code}"


def parse_fault(text: str) -> Fault:
    """Raises ValueError, saying what is wrong, when `text` is no fault."""
    kind, _, rest = text.partition(":")
    if kind not in [known.value for known in FaultKind]:
        raise ValueError(f"fault {text!r}: unknown kind {kind!r}, expected one of {', '.join(FaultKind)}")
    fields: dict[str, int] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key not in ("rank", "round", "epoch", "code") or not value.isdecimal():
            raise ValueError(f"fault {text!r}: {part!r} is not rank=N, round=N, epoch=N or code=N")
        fields[key] = int(value)
    if "rank" not in fields or "round" not in fields:
        raise ValueError(f"fault {text!r}: rank and round are required, such as {kind}:rank=1,round=20")
    if kind == FaultKind.WRONG and fields["round"] != 0:
        raise ValueError(f"fault {text!r}: only the pre-flight check can come out wrong, set round=0")
    return Fault(FaultKind(kind), **fields)


def parse_faults(text: str) -> tuple[Fault, ...]:
    """`text` holds faults joined by `;`; an empty one gives none."""
    return tuple(parse_fault(part.strip()) for part in text.split(";") if part.strip())
