"""What the coordinator knows, what can happen to it, and what it does about it: frozen data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import Beat, Down, Hello, ShardFile, Up
from ringtrain.contract.report import CheckpointRecord, CommunicationTotals, Notice, Progress, RankFailure


@dataclass(frozen=True, slots=True)
class Member:
    """A replica that is connected."""

    connection: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Save:
    """A checkpoint that ranks of `generation` are writing."""

    generation: Generation
    round: int
    shards: Mapping[int, Sequence[ShardFile]]
    """By rank."""
    layouts: Mapping[int, str] = field(default_factory=dict)
    """By rank: see ShardsWritten."""


@dataclass(frozen=True, slots=True)
class Store:
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    job: str
    replicas: int
    procs_per_replica: int
    coordinator_id: str
    pipeline: int = 1
    """Ranks of each pipeline."""
    highest: Generation = field(default_factory=lambda: Generation(0, -1))
    """The highest generation known of; attempt -1: its epoch is known, no attempt of it."""
    generation: Generation | None = None
    """The one that trains; None while members gather."""
    store: Store | None = None
    members: Mapping[int, Member] = field(default_factory=dict)
    """By replica."""
    connections: Mapping[int, int] = field(default_factory=dict)
    """The members' replicas, by connection."""
    epochs: Mapping[int, int] = field(default_factory=dict)
    """The highest epoch known of each replica."""
    unstarted: frozenset[int] = frozenset()
    """Ranks without a process, for which their agents wait."""
    started: Generation | None = None
    """The one that ranks were started in; None once it was left, or entered by their sessions."""
    own_group: bool = False
    """The ranks that were started form a group by themselves, without sessions."""
    ready: frozenset[int] = frozenset()
    """Ranks that wait for a generation."""
    done: frozenset[int] = frozenset()
    """Ranks that need no further one."""
    finished: bool = False
    saves: Mapping[int, Save] = field(default_factory=dict)
    """Of the current generation, by round; complete ones wait for `committing`."""
    given_up: frozenset[int] = frozenset()
    """Rounds whose save failed in the current generation."""
    committing: Save | None = None
    """May be of an earlier generation: a commit that has begun is not stopped."""
    beats: Mapping[int, Beat] = field(default_factory=dict)
    """The latest of each connected rank."""
    progress: Progress | None = None
    """That of `leader` in the current generation; until it has one, of the generation before."""
    leader: int | None = None
    """The lowest rank that has told any progress in the current generation."""
    last_checkpoint: CheckpointRecord | None = None
    notices: tuple[Notice, ...] = ()
    noticed: int = 0
    rank_failures: tuple[RankFailure, ...] = ()
    """The latest of those that were started again in their pods."""
    measured: Mapping[int, CommunicationTotals] = field(default_factory=dict)
    """By rank, when stragglers were last looked for."""
    stragglers: frozenset[int] = frozenset()
    """Ranks for which all others wait."""

    @property
    def world_size(self) -> int:
        return self.replicas * self.procs_per_replica

    def ranks(self, replica: int) -> range:
        return range(replica * self.procs_per_replica, (replica + 1) * self.procs_per_replica)


@dataclass(frozen=True, slots=True)
class AgentConnected:
    connection: int
    hello: Hello


@dataclass(frozen=True, slots=True)
class AgentLost:
    connection: int
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    connection: int
    message: Up


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """Rank 0 listens at the MASTER_PORT of `generation`."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class StoreUp:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StoreDown:
    reason: str


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """Of `State.committing`; `error` is empty when it is committed."""

    error: str


Event = AgentConnected | AgentLost | Received | OwnGroup | StoreUp | StoreDown | CommitEnded


@dataclass(frozen=True, slots=True)
class Send:
    connection: int
    message: Down


@dataclass(frozen=True, slots=True)
class Close:
    """Sends what is queued for the connection, and closes it."""

    connection: int


@dataclass(frozen=True, slots=True)
class Commit:
    save: Save


Action = Send | Close | Commit
