"""Commands in a hostile world: whatever happens, no two generations run beside each other, only causes are counted, and
the job ends."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ringtrain.contract.exit_codes import ExitCode
from ringtrain.coordinator.state import StoreDown
from trainer.coordinator.hostile_commands import PROCS, REPLICAS, STORE, Pod, World

RANKS = st.integers(0, REPLICAS * PROCS - 1)


class HostileCommands(RuleBasedStateMachine):
    """Processes begin, end and die late; connections, pods and coordinators are lost any time."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.sessions = False

    @initialize(sessions=st.booleans(), already=st.booleans())
    def begin(self, sessions: bool, already: bool) -> None:
        self.sessions = sessions
        if already:
            self.calm()

    def pod_of(self, rank: int) -> Pod:
        return self.world.pods[rank // PROCS]

    @rule(kind=st.sampled_from(["pod 0", "pod 1", "coordinator", "store"]))
    def disaster(self, kind: str) -> None:
        if kind == "coordinator":
            self.world.replace_coordinator()
        elif kind == "store":
            self.world.happen(StoreDown("killed"))
        else:
            self.world.replace_pod(int(kind.removeprefix("pod ")))

    @rule()
    def store_starts(self) -> None:
        self.world.happen(STORE)

    @rule(replica=st.integers(0, REPLICAS - 1))
    def connect(self, replica: int) -> None:
        self.world.connect(self.world.pods[replica])

    @precondition(lambda self: self.world.wires)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.world.lose(data.draw(st.sampled_from(sorted(self.world.wires))))

    @precondition(lambda self: self.world.wires)
    @rule(data=st.data(), up=st.booleans())
    def pass_one(self, data: st.DataObject, up: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.world.wires)))
        if up:
            self.world.pass_up(number)
        else:
            self.world.pass_down(number)

    @rule(replica=st.integers(0, REPLICAS - 1), kind=st.sampled_from(["begin", "reap", "train"]))
    def processes_go_on(self, replica: int, kind: str) -> None:
        pod = self.world.pods[replica]
        if pod.ended is None:
            {"begin": pod.begin, "reap": pod.reap, "train": pod.train}[kind]()

    @rule(rank=RANKS)
    def session_opens(self, rank: int) -> None:
        if self.sessions and self.pod_of(rank).ended is None:
            self.pod_of(rank).open_session(rank)

    @rule(rank=RANKS, code=st.sampled_from([1, 137]))
    def fails(self, rank: int, code: int) -> None:
        self.pod_of(rank).exit(rank, code)

    @rule(but=st.none() | RANKS)
    def all_fail_with_one(self, but: int | None) -> None:
        for rank in range(REPLICAS * PROCS):
            if rank != but:
                self.pod_of(rank).exit(rank, 1)

    @rule(but=st.none() | RANKS)
    def have_trained(self, but: int | None) -> None:
        for rank in range(REPLICAS * PROCS):
            if rank != but and self.pod_of(rank).ended is None:
                self.pod_of(rank).finish(rank)

    @rule(replica=st.integers(0, REPLICAS - 1))
    def is_preempted(self, replica: int) -> None:
        pod = self.world.pods[replica]
        if pod.ended is None and not pod.replica.stopping:
            pod.replica.stop("SIGTERM", 5.0)

    @rule()
    def operator_comes_by(self) -> None:
        self.world.operate()

    @rule()
    def calm(self) -> None:
        self.world.happen(STORE)
        self.world.settle(sessions=self.sessions)

    def teardown(self) -> None:
        """Once the world is kind again, all ranks train together, and the job comes to its end."""
        for pod in self.world.pods:
            if pod.replica.stopping and pod.ended is None:
                for process in pod.processes.values():
                    process.terminate()
        world = self.world
        world.operate()
        if world.done:
            # What happens to pods then is no matter any more: the operator has seen a pod that ended well.
            return
        self.calm()
        if not world.state.finished:
            records = [record for pod in world.pods for record in pod.replica.records]
            assert len({record.generation for record in records}) == 1
            assert records[0].generation == str(world.state.generation or world.state.started)
            self.have_trained(None)
            self.calm()
        assert world.state.finished
        assert [pod.ended and pod.ended.exit_code for pod in world.pods] == [ExitCode.DONE] * REPLICAS
        if not self.sessions:
            # Of each generation, at most one failure: its cause.
            assert len(set(world.failures)) == len(world.failures)


HostileCommands.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestHostileCommands = HostileCommands.TestCase
