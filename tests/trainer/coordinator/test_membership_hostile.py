"""The membership's rules in a hostile world: messages late, pods and coordinators replaced at any time."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

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
    StoreDown,
    StoreUp,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STORE = StoreUp("127.5.0.1", 8472)


def fresh(replicas: int, procs_per_replica: int) -> State:
    return State(job="job", replicas=replicas, procs_per_replica=procs_per_replica, coordinator_id="id")


REPLICAS, PROCS = 2, 2


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
    known_epoch: int
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


class HostileWorld(RuleBasedStateMachine):
    """Messages and losses come late, in any order between connections; pods and coordinators are replaced any time."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0
        self.pods = [Pod(replica, 0, 0) for replica in range(REPLICAS)]
        self.wires: dict[int, Wire] = {}
        self.connections = 0
        self.entered: set[tuple[str, int]] = set()
        self.begun: dict[str, int] = {}
        self.coordinator = 0
        self.state = fresh(REPLICAS, PROCS)

    # What the world does.

    @rule(kind=st.sampled_from(["pod 0", "pod 1", "coordinator", "store", "connections"]))
    def disaster(self, kind: str) -> None:
        if kind == "coordinator":
            for number in list(self.wires):
                self._cut(number)
            self.coordinator += 1
            self.state = fresh(REPLICAS, PROCS)
        elif kind == "store":
            self._happen(StoreDown("killed"))
        elif kind == "connections":
            for number in list(self.wires):
                self._lose(number)
        else:
            self.epoch += 1
            replica = int(kind.removeprefix("pod "))
            self.pods[replica] = Pod(replica, self.epoch, self.epoch)

    @rule()
    def store_starts(self) -> None:
        self._happen(STORE)

    @rule(replica=st.integers(0, REPLICAS - 1))
    def connect(self, replica: int) -> None:
        self._connect(self.pods[replica])

    @precondition(lambda self: self.wires)
    @rule(data=st.data())
    def lose(self, data: Any) -> None:
        self._lose(data.draw(st.sampled_from(sorted(self.wires))))

    @precondition(lambda self: self.wires)
    @rule(data=st.data(), up=st.booleans())
    def pass_one(self, data: Any, up: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.wires)))
        if up:
            self._pass_up(number)
        else:
            self._pass_down(number)

    @precondition(lambda self: self.wires)
    @rule(up=st.booleans())
    def pass_all(self, up: bool) -> None:
        self._pass_all(up)

    def _pass_all(self, up: bool) -> None:
        for number, wire in list(self.wires.items()):
            while wire.up if up else wire.down:
                self._pass_up(number) if up else self._pass_down(number)

    @rule(rank=st.integers(0, REPLICAS * PROCS - 1), kind=st.sampled_from(["broken", "save", "fail", "done"]))
    def one_rank_speaks(self, rank: int, kind: str) -> None:
        pod = self.pods[rank // PROCS]
        self._speak(pod, pod.ranks[rank % PROCS], kind)

    @rule(
        kind=st.sampled_from(["save", "save", "done"]),
        but=st.none() | st.integers(0, REPLICAS * PROCS - 1),
        heard=st.booleans(),
    )
    def ranks_speak(self, kind: str, but: int | None, heard: bool) -> None:
        for pod in self.pods:
            for rank in pod.ranks:
                if rank.number != but:
                    self._speak(pod, rank, kind)
        if heard:
            self._pass_all(True)

    @rule(error=st.sampled_from(["", "no space"]))
    def commit_ends(self, error: str) -> None:
        self._happen(CommitEnded(error))

    @initialize(already=st.booleans())
    def begin(self, already: bool) -> None:
        if already:
            self.calm()

    @rule()
    def calm(self) -> None:
        self._happen(STORE)
        self._settle()

    # How agents and ranks follow the contract.

    def _connect(self, pod: Pod) -> None:
        if pod.connection is not None or pod.refused:
            return
        number = self.connections = self.connections + 1
        self.wires[number] = Wire(pod)
        pod.connection = number
        ranks = tuple(rank.number for rank in pod.ranks)
        message = Hello(job="job", replica=pod.replica, epoch=pod.epoch, ranks=ranks, known_epoch=pod.known_epoch)
        self._happen(AgentConnected(number, message))
        for rank in pod.ranks:
            if rank.waiting:
                self._say(pod, Ready(rank=rank.number, after=rank.generation))

    def _speak(self, pod: Pod, rank: Rank, kind: str) -> None:
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

    def _lose(self, number: int) -> None:
        self._cut(number)
        self._happen(AgentLost(number, "lost"))

    def _pass_up(self, number: int) -> None:
        wire = self.wires[number]
        if wire.up:
            self._happen(Received(number, wire.up.popleft()))

    def _pass_down(self, number: int) -> None:
        wire = self.wires[number]
        if not wire.down:
            return
        message, pod = wire.down.popleft(), wire.pod
        match message:
            case Enter():
                pod.known_epoch = max(pod.known_epoch, Generation.parse(message.generation).epoch)
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
        assert self.begun.setdefault(generation, self.coordinator) == self.coordinator

    def _happen(self, event: Event) -> None:
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
        assert (enter.generation, self.coordinator) not in self.entered
        self.entered.add((enter.generation, self.coordinator))
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

    # It always ends.

    def teardown(self) -> None:
        """Once the world is kind again, all ranks train together, and the job comes to its end."""
        self._happen(STORE)
        self._settle()
        assert all(not pod.refused for pod in self.pods)
        if not self.state.finished:
            generations = {rank.generation for pod in self.pods for rank in pod.ranks}
            assert len(generations) == 1
            assert generations == {str(self.state.generation)}
            for pod in self.pods:
                for rank in pod.ranks:
                    self._speak(pod, rank, "done")
            self._settle()
        assert self.state.finished
        assert all(pod.finished for pod in self.pods)

    def _settle(self) -> None:
        for number in [number for number, wire in self.wires.items() if wire.pod not in self.pods]:
            self._lose(number)
        for turn in range(40):
            for pod in self.pods:
                self._connect(pod)
            if self.state.committing is not None and turn > 15:
                self._happen(CommitEnded(""))
            for number in list(self.wires):
                self._pass_up(number)
                self._pass_down(number)


HostileWorld.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestHostileWorld = HostileWorld.TestCase
