"""A hostile world of commands: real agents' switchboards, whose processes open sessions or do not, begin late, fail,
and are slow to die."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

from ringtrain.agent.rank_process import RankProcess
from ringtrain.agent.replica import Replica
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import Beat, Done, Down, Enter, Finished, Hello, Leave, Message, Ready, Start, Up
from ringtrain.contract.phases import Phase
from ringtrain.contract.preflight import Preflight
from ringtrain.contract.report import TerminationMessage
from ringtrain.coordinator.membership import step
from ringtrain.coordinator.state import AgentConnected, AgentLost, Close, Event, Received, Send, State, StoreUp
from support.environments import replica_environment

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STORE = StoreUp("127.5.0.1", 8472)
REPLICAS, PROCS = 2, 2


class Process:
    """A rank's process, in the place of a RankProcess and of its child."""

    pid = 7

    def __init__(self, rank: int, generation: Generation) -> None:
        self.rank = rank
        self.generation = str(generation)
        """The one it was started in."""
        self.child = self
        self.signal = 0
        """Of which it is about to die."""
        self.session = False
        self.entered: str | None = None
        self.inbox: deque[Down] = deque()

    def kill(self) -> None:
        self.signal = 9

    def terminate(self) -> None:
        self.signal = self.signal or 15

    def send(self, message: Down) -> None:
        self.inbox.append(message)


class Pod:
    """An agent, as far as it decides."""

    def __init__(self, number: int, epoch: int, preflight: Preflight | None = None) -> None:
        self.number = number
        self.connection: int | None = None
        self.said: deque[Up] = deque()
        self.beginning: list[tuple[int, Generation]] = []
        self.checking: list[int] = []
        """Ranks whose machines are to be checked first."""
        self.processes: dict[int, Process] = {}
        self.ended: TerminationMessage | None = None
        self.replica = Replica(
            replica_environment(
                replica=number,
                replicas=REPLICAS,
                procs_per_replica=PROCS,
                epoch=epoch,
                command=("train",),
                preflight=preflight,
            ),
            self._send,
            self._start,
            lambda rank, _: self.checking.append(rank),
            self._end,
        )

    def begin(self) -> None:
        """Processes that the agent started are there now."""
        beginning, self.beginning = self.beginning, []
        for rank, generation in beginning:
            self.processes[rank] = Process(rank, generation)
            self.replica.begun(cast(RankProcess, self.processes[rank]))

    def exit(self, rank: int, code: int) -> None:
        if rank in self.processes and not self.ended:
            del self.processes[rank]
            self.replica.ended(rank, code)

    def reap(self) -> None:
        for rank, process in list(self.processes.items()):
            if process.signal:
                self.exit(rank, 128 + process.signal)

    def open_session(self, rank: int) -> None:
        process = self.processes.get(rank)
        if process is not None and not process.session and not process.signal:
            process.session = True
            self.replica.heard(Beat(rank=rank, phase=Phase.STARTING))
            self.replica.heard(Ready(rank=rank))

    def train(self) -> None:
        """Sessions do what they are told, and beat."""
        for rank, process in list(self.processes.items()):
            if process.session and not process.signal:
                phase = Phase.TRAINING if process.entered else Phase.WAITING
                self.replica.heard(Beat(rank=rank, phase=phase, generation=process.entered))
            while process.session and process.inbox and not process.signal:
                match process.inbox.popleft():
                    case Enter(generation=generation):
                        process.entered = generation
                    case Leave(generation=generation) if generation == process.entered:
                        process.entered = None
                        self.replica.heard(Ready(rank=rank, after=generation))
                    case Finished():
                        self.exit(rank, 0)

    def finish(self, rank: int) -> None:
        """The rank has nothing left to train."""
        process = self.processes.get(rank)
        if process is None or process.signal:
            return
        if not process.session:
            self.exit(rank, 0)
        elif process.entered:
            self.replica.heard(Done(rank=rank, round=9))

    def _send(self, message: Message) -> bool:
        if self.connection is None:
            return False
        assert isinstance(message, Up)
        self.said.append(message)
        return True

    def _start(self, rank: int, generation: Generation, _again: bool) -> None:
        assert rank not in self.processes
        assert rank not in [other for other, _ in self.beginning]
        self.beginning.append((rank, generation))

    def _end(self, message: TerminationMessage) -> None:
        if self.ended is None:
            self.ended = message


@dataclass
class Wire:
    """A connection with messages under way."""

    pod: Pod
    up: deque[Up]
    down: deque[Down] = field(default_factory=deque)


class World:
    """One coordinator's rules, and the agents it decides about. A broken promise is an AssertionError."""

    def __init__(self) -> None:
        self.epoch = 0
        self.pods = [Pod(number, 0) for number in range(REPLICAS)]
        self.wires: dict[int, Wire] = {}
        self.state = self._fresh()
        self.failures: list[str] = []
        """The generation in which each failure happened that the operator counts."""
        self.done: list[Pod] = []
        """Those that ended well: the job is over."""
        self._connections = 0

    def _fresh(self) -> State:
        return State(job="job", replicas=REPLICAS, procs_per_replica=PROCS, coordinator_id="id")

    def replace_pod(self, number: int) -> None:
        """Nobody hears of the old one's end yet."""
        self._see_done()
        self.epoch += 1
        self.pods[number] = Pod(number, self.epoch)

    def replace_coordinator(self) -> None:
        for number in list(self.wires):
            self._cut(number)
        self.state = self._fresh()

    def connect(self, pod: Pod) -> None:
        if pod.connection is not None or pod.ended:
            return
        number = self._connections = self._connections + 1
        hello, *standing = pod.replica.opening()
        assert isinstance(hello, Hello)
        pod.connection, pod.said = number, deque(message for message in standing if isinstance(message, Up))
        self.wires[number] = Wire(pod, pod.said)
        self.happen(AgentConnected(number, hello))

    def _cut(self, number: int) -> None:
        pod = self.wires.pop(number).pod
        if pod.connection == number:
            pod.connection = None
            if not pod.ended:
                pod.replica.coordinator_lost("cut")

    def lose(self, number: int) -> None:
        self._cut(number)
        self.happen(AgentLost(number, "lost"))

    def pass_up(self, number: int) -> None:
        wire = self.wires[number]
        if wire.up:
            self.happen(Received(number, wire.up.popleft()))

    def pass_down(self, number: int) -> None:
        wire = self.wires[number]
        if wire.down and not wire.pod.ended:
            wire.pod.replica.received(wire.down.popleft())

    def happen(self, event: Event) -> None:
        before = self.state
        self.state, actions = step(before, event, NOW)
        messages = {action.message for action in actions if isinstance(action, Send)}
        members = [self.wires[member.connection].pod for member in self.state.members.values()]
        if any(isinstance(message, Start) for message in messages):
            assert len(members) == REPLICAS
            # Whatever rendezvouses by itself must not meet the generation before.
            assert not [rank for pod in members for rank, process in pod.processes.items() if not process.session]
        if self.state.finished and not before.finished:
            self._check_end(members)
        for action in actions:
            if isinstance(action, Close):
                self.wires[action.connection].up.clear()
            elif isinstance(action, Send):
                self.wires[action.connection].down.append(action.message)

    def _check_end(self, members: list[Pod]) -> None:
        assert len(members) == REPLICAS
        records = [record for pod in members for record in pod.replica.records if not record.judged]
        assert all(record.phase is Phase.DONE for record in records)
        assert len({record.generation for record in records}) <= 1

    def operate(self) -> None:
        """What the operator does about pods that have ended."""
        self._see_done()
        for number, pod in enumerate(self.pods):
            if pod.ended is None or self.done:
                continue
            if pod.ended.exit_code not in (ExitCode.PREEMPTED, ExitCode.STALE):
                assert pod.ended.rank is not None
                self.failures.append(f"{pod.replica.records[pod.ended.rank - PROCS * number].generation}")
            self.replace_pod(number)

    def _see_done(self) -> None:
        self.done += [pod for pod in self.pods if pod.ended and pod.ended.exit_code == ExitCode.DONE]

    def settle(self, *, sessions: bool) -> None:
        for _ in range(60):
            self.operate()
            for number in [number for number, wire in self.wires.items() if wire.pod not in self.pods]:
                self.lose(number)
            for pod in self.pods:
                self.connect(pod)
                self.live(pod, sessions=sessions)
            for number in list(self.wires):
                self.pass_up(number)
                self.pass_down(number)

    def live(self, pod: Pod, *, sessions: bool) -> None:
        pod.begin()
        pod.reap()
        pod.train()
        for rank in list(pod.processes) if sessions else ():
            pod.open_session(rank)
