"""A world in which messages come late, and pods and coordinators are replaced at any time."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import (
    Broken,
    Done,
    Down,
    Enter,
    Finished,
    Hello,
    Leave,
    Ready,
    Refused,
    SaveFailed,
    ShardFile,
    ShardsWritten,
    Up,
)
from ringtrain.coordinator.membership import step
from ringtrain.coordinator.state import (
    AgentConnected,
    AgentLost,
    Close,
    Commit,
    CommitEnded,
    Event,
    Received,
    Send,
    State,
    StoreUp,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STORE = StoreUp("127.5.0.1", 8472)
REPLICAS, PROCS = 2, 2


def fresh() -> State:
    return State(job="job", replicas=REPLICAS, procs_per_replica=PROCS, coordinator_id="id")


@dataclass
class Rank:
    number: int
    generation: str | None = None
    """The one it is in, or was in last."""
    waiting: bool = True
    done: bool = False
    done_in: str | None = None
    """The generation in which it was done last."""


@dataclass
class Pod:
    """An agent with its ranks: what they do follows the contract, when they do it is up to the world."""

    replica: int
    epoch: int
    known_generation: str | None = None
    connection: int | None = None
    finished: bool = False
    refused: bool = False
    ranks: list[Rank] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ranks = [Rank(self.replica * PROCS + local) for local in range(PROCS)]


@dataclass
class Wire:
    """A connection with messages under way."""

    pod: Pod
    up: deque[Up] = field(default_factory=deque)
    down: deque[Down] = field(default_factory=deque)


class World:
    """One coordinator's rules, and the agents and ranks it decides about. A broken promise is an AssertionError."""

    def __init__(self) -> None:
        self.epoch = 0
        self.pods = [Pod(replica, 0) for replica in range(REPLICAS)]
        self.wires: dict[int, Wire] = {}
        self.state = fresh()
        self._connections = 0
        self._coordinator = 0
        self._entered: set[tuple[str, int]] = set()
        self._begun: dict[str, int] = {}

    def replace_pod(self, replica: int) -> None:
        """Nobody hears of the old one's end yet."""
        self.epoch += 1
        self.pods[replica] = Pod(replica, self.epoch)

    def replace_coordinator(self) -> None:
        for number in list(self.wires):
            self._cut(number)
        self._coordinator += 1
        self.state = fresh()

    def connect(self, pod: Pod) -> None:
        if pod.connection is not None or pod.refused:
            return
        number = self._connections = self._connections + 1
        self.wires[number] = Wire(pod)
        pod.connection = number
        ranks = tuple(rank.number for rank in pod.ranks)
        known = pod.known_generation
        message = Hello(job="job", replica=pod.replica, epoch=pod.epoch, ranks=ranks, known_generation=known)
        self.happen(AgentConnected(number, message))
        for rank in pod.ranks:
            if rank.waiting:
                self._say(pod, Ready(rank=rank.number, after=rank.generation))

    def speak(self, pod: Pod, rank: Rank, kind: str) -> None:
        if rank.waiting or rank.done or rank.generation is None:
            return
        if kind == "broken":
            self._say(pod, Broken(rank=rank.number, generation=rank.generation, reason="reset"))
            self._leave(pod, rank)
        elif kind == "save":
            file = ShardFile(path=f"{rank.generation}-{rank.number}", size=1, sha256="")
            self._say(pod, ShardsWritten(rank=rank.number, generation=rank.generation, round=5, files=(file,)))
        elif kind == "fail":
            self._say(pod, SaveFailed(rank=rank.number, generation=rank.generation, round=5, reason="full"))
        else:
            rank.done, rank.done_in = True, rank.generation
            self._say(pod, Done(rank=rank.number, round=9))

    def _leave(self, pod: Pod, rank: Rank) -> None:
        if not rank.waiting:
            rank.waiting, rank.done = True, False
            self._say(pod, Ready(rank=rank.number, after=rank.generation))

    def _say(self, pod: Pod, message: Up) -> None:
        if pod.connection is not None:
            self.wires[pod.connection].up.append(message)

    def _cut(self, number: int) -> Wire:
        wire = self.wires.pop(number)
        if wire.pod.connection == number:
            wire.pod.connection = None
            for rank in wire.pod.ranks:
                self._leave(wire.pod, rank)
        return wire

    def lose(self, number: int) -> None:
        self._cut(number)
        self.happen(AgentLost(number, "lost"))

    def pass_up(self, number: int) -> None:
        wire = self.wires[number]
        if wire.up:
            self.happen(Received(number, wire.up.popleft()))

    def pass_down(self, number: int) -> None:
        wire = self.wires[number]
        if not wire.down:
            return
        message, pod = wire.down.popleft(), wire.pod
        match message:
            case Enter():
                pod.known_generation = message.generation
                self._check_number(message.generation)
                for rank in pod.ranks:
                    assert rank.waiting
                    assert rank.generation is None or (
                        Generation.parse(message.generation) > Generation.parse(rank.generation)
                    )
                    rank.waiting, rank.generation = False, message.generation
            case Leave():
                for rank in pod.ranks:
                    if rank.generation == message.generation:
                        self._leave(pod, rank)
            case Finished():
                pod.finished = True
            case Refused():
                pod.refused = True

    def _check_number(self, generation: str) -> None:
        """No rank ever sees two generations of one number."""
        assert self._begun.setdefault(generation, self._coordinator) == self._coordinator

    def happen(self, event: Event) -> None:
        before = self.state
        self.state, actions = step(before, event, NOW)
        for action in actions:
            if isinstance(action, Commit):
                self._check_commit(before, action)
                assert before.committing is None or isinstance(event, CommitEnded)
            elif isinstance(action, Close):
                self.wires[action.connection].up.clear()
            else:
                self.wires[action.connection].down.append(action.message)
        if self.state.finished and not before.finished:
            members = [self.wires[member.connection].pod for member in self.state.members.values()]
            assert all(rank.done_in == rank.generation for pod in members for rank in pod.ranks)
        for enter in {action.message for action in actions if isinstance(action, Send)}:
            if isinstance(enter, Enter):
                self._check_enter(enter, before)

    def _check_enter(self, enter: Enter, before: State) -> None:
        assert before.generation is None
        assert (enter.generation, self._coordinator) not in self._entered
        self._entered.add((enter.generation, self._coordinator))
        members = [self.wires[member.connection].pod for member in self.state.members.values()]
        assert sorted(pod.replica for pod in members) == list(range(REPLICAS))
        assert all(rank.waiting for pod in members for rank in pod.ranks)
        assert self.state.committing is None
        assert Generation.parse(enter.generation).epoch >= max(pod.epoch for pod in members)

    def _check_commit(self, before: State, commit: Commit) -> None:
        save = commit.save
        assert save.generation == before.generation
        assert {rank: [file.path for file in files] for rank, files in save.shards.items()} == {
            rank: [f"{save.generation}-{rank}"] for rank in range(REPLICAS * PROCS)
        }

    def pass_all(self, up: bool) -> None:
        for number, wire in list(self.wires.items()):
            while wire.up if up else wire.down:
                self.pass_up(number) if up else self.pass_down(number)

    def settle(self) -> None:
        for number in [number for number, wire in self.wires.items() if wire.pod not in self.pods]:
            self.lose(number)
        for turn in range(40):
            for pod in self.pods:
                self.connect(pod)
            if self.state.committing is not None and turn > 15:
                self.happen(CommitEnded(""))
            for number in list(self.wires):
                self.pass_up(number)
                self.pass_down(number)
