"""Messages between ranks and their agent (a Unix socket), and between agents and the coordinator (TCP).

Each is one line of JSON. `Up` goes rank -> agent -> coordinator, `Down` the other way; the agent reads what it needs
and passes everything on unchanged, except that it sends on at most one Beat a second of each rank (a change of phase
or generation at once).
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from ringtrain.contract.model import ContractModel
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Fitness, JobReport, Progress

MAXIMUM_LINE = 1 << 20
"""Bytes; a longer line is a broken peer, and its connection is closed."""


class Hello(ContractModel):
    """The first line of an agent's connection. An epoch lower than one known of this replica is refused."""

    type: Literal["hello"] = "hello"
    job: str
    replica: int
    epoch: int
    ranks: tuple[int, ...]
    known_generation: str | None = None
    """The highest that this agent has seen: a restarted coordinator, of which ranks that were started again too can
    tell nothing, begins above it."""


class Beat(ContractModel):
    """A heartbeat from the training thread itself, or from its poll of a collective."""

    type: Literal["beat"] = "beat"
    rank: int
    phase: Phase
    generation: str | None = None
    progress: Progress | None = None


class Unstarted(ContractModel):
    """From the agent itself: the rank has no process, and may get one in a generation above `after` (None: it has had
    none). Only of commands: whether one opens a session is not known before."""

    type: Literal["unstarted"] = "unstarted"
    rank: int
    after: str | None = None


class Ready(ContractModel):
    """The rank holds no group any more and asks for a generation above `after` (None: it is new)."""

    type: Literal["ready"] = "ready"
    rank: int
    after: str | None = None


class Broken(ContractModel):
    """A collective of `generation` failed at this rank, or will: from the agent, of a rank without a session that was
    asked to end."""

    type: Literal["broken"] = "broken"
    rank: int
    generation: str
    reason: str


class ShardFile(ContractModel):
    """One file of a checkpoint; `path` is relative to the checkpoint's directory."""

    path: str
    size: int
    sha256: str


class ShardsWritten(ContractModel):
    """This rank's part of a checkpoint lies flushed in the staging directory; commit when all ranks' parts do."""

    type: Literal["shardsWritten"] = "shardsWritten"
    rank: int
    generation: str
    round: int
    files: tuple[ShardFile, ...]
    """May be empty: the rank had nothing of its own to write."""
    layout: str = ""
    """A digest of which tensors this rank and its twins hold, and who of them writes which: the same for all of them,
    or their files do not fit together."""


class SaveFailed(ContractModel):
    """This rank could not write its part; the checkpoint is given up, training goes on."""

    type: Literal["saveFailed"] = "saveFailed"
    rank: int
    generation: str
    round: int
    reason: str


class Report(ContractModel):
    """A rank's message to the user: becomes a Notice of the job's report."""

    type: Literal["report"] = "report"
    rank: int
    reason: str
    message: str
    warning: bool = True


class Holds(ContractModel):
    """Which part of the model this rank holds, for people."""

    type: Literal["holds"] = "holds"
    rank: int
    part: str


class Checked(ContractModel):
    """The pre-flight check found this rank and all others fit."""

    type: Literal["checked"] = "checked"
    rank: int
    fitness: Fitness


class Done(ContractModel):
    """All rounds are trained and this rank needs no further commit."""

    type: Literal["done"] = "done"
    rank: int
    round: int


class Failing(ContractModel):
    """This rank is about to exit with `exit_code` for the reason in `message`; becomes the TerminationMessage."""

    type: Literal["failing"] = "failing"
    rank: int
    exit_code: int
    message: str
    round: int | None = None


class Restarted(ContractModel):
    """From the agent: the rank's process ended with `exit_code`, and another takes its place in the same pod. A new
    coordinator is told again."""

    type: Literal["restarted"] = "restarted"
    rank: int
    number: int
    """Counts such restarts in this pod, from 1."""
    exit_code: int
    message: str
    round: int | None = None
    """Rounds finished, as far as the agent knows."""
    generation: str | None = None
    """The newest that the agent had heard of; None before any."""


class Alive(ContractModel):
    """Agent to coordinator, once a second: this agent runs. Says nothing of its ranks."""

    type: Literal["alive"] = "alive"


class Start(ContractModel):
    """All replicas are here: their agents start the ranks that wait for it. Those that open no session are in
    `generation` from then on; those that do open one ask for it by Ready."""

    type: Literal["start"] = "start"
    generation: str
    everybody: bool = False
    """No rank of the job has a process: before the command, all can be checked."""


class Enter(ContractModel):
    """All members are ready: form the groups of `generation`."""

    type: Literal["enter"] = "enter"
    generation: str
    world_size: int
    store_host: str
    store_port: int


class Leave(ContractModel):
    """`generation` is broken: leave its collectives at once and say Ready. Ranks without a session are killed by their
    agents, which say Unstarted."""

    type: Literal["leave"] = "leave"
    generation: str
    reason: str
    blamed: int | None = None
    """The rank whose failure is the cause. Its replica ends; of other ranks, failures are but consequences."""


class Committed(ContractModel):
    """The checkpoint of `round` is committed (`error` empty), or was given up for the reason in `error`."""

    type: Literal["committed"] = "committed"
    generation: str
    round: int
    error: str = ""


class Stop(ContractModel):
    """Agent to rank: end soon, with exit code PREEMPTED."""

    type: Literal["stop"] = "stop"
    reason: str
    seconds: float = 0.0
    """How long the rank may take for the end of its round and a save."""


class Finished(ContractModel):
    """All ranks of the job are done: exit with code DONE."""

    type: Literal["finished"] = "finished"


class Refused(ContractModel):
    """The coordinator will not have this agent: a newer pod of its replica is known."""

    type: Literal["refused"] = "refused"
    reason: str


class JobReported(ContractModel):
    """The coordinator's report, once a second to every agent. Not passed on to ranks."""

    type: Literal["jobReported"] = "jobReported"
    report: JobReport


Up = (
    Beat
    | Unstarted
    | Ready
    | Broken
    | ShardsWritten
    | SaveFailed
    | Report
    | Holds
    | Checked
    | Done
    | Failing
    | Restarted
)
Down = Start | Enter | Leave | Committed | Stop | Finished | Refused | JobReported
Message = Hello | Alive | Up | Down

_ADAPTER: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="type")])


def encode(message: Message) -> bytes:
    """One line, newline included."""
    return message.to_json().encode() + b"\n"


def decode(line: bytes) -> Message:
    """Raises ValueError (pydantic's) when `line` is no message."""
    return _ADAPTER.validate_json(line)
