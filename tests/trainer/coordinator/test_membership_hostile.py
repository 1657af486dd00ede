"""The membership's rules in a hostile world: whatever happens, its promises hold and the job ends."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ringtrain.coordinator.state import CommitEnded, StoreDown
from trainer.coordinator.hostile import PROCS, REPLICAS, STORE, World


class HostileWorld(RuleBasedStateMachine):
    """Messages and losses come late, in any order between connections; pods and coordinators are replaced any time."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    # What the world does.

    @rule(kind=st.sampled_from(["pod 0", "pod 1", "coordinator", "store", "connections"]))
    def disaster(self, kind: str) -> None:
        if kind == "coordinator":
            self.world.replace_coordinator()
        elif kind == "store":
            self.world.happen(StoreDown("killed"))
        elif kind == "connections":
            for number in list(self.world.wires):
                self.world.lose(number)
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
    def lose(self, data: Any) -> None:
        self.world.lose(data.draw(st.sampled_from(sorted(self.world.wires))))

    @precondition(lambda self: self.world.wires)
    @rule(data=st.data(), up=st.booleans())
    def pass_one(self, data: Any, up: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.world.wires)))
        if up:
            self.world.pass_up(number)
        else:
            self.world.pass_down(number)

    @precondition(lambda self: self.world.wires)
    @rule(up=st.booleans())
    def pass_all(self, up: bool) -> None:
        self.world.pass_all(up)

    @rule(rank=st.integers(0, REPLICAS * PROCS - 1), kind=st.sampled_from(["broken", "save", "fail", "done"]))
    def one_rank_speaks(self, rank: int, kind: str) -> None:
        pod = self.world.pods[rank // PROCS]
        self.world.speak(pod, pod.ranks[rank % PROCS], kind)

    @rule(
        kind=st.sampled_from(["save", "save", "done"]),
        but=st.none() | st.integers(0, REPLICAS * PROCS - 1),
        heard=st.booleans(),
    )
    def ranks_speak(self, kind: str, but: int | None, heard: bool) -> None:
        for pod in self.world.pods:
            for rank in pod.ranks:
                if rank.number != but:
                    self.world.speak(pod, rank, kind)
        if heard:
            self.world.pass_all(True)

    @rule(error=st.sampled_from(["", "no space"]))
    def commit_ends(self, error: str) -> None:
        self.world.happen(CommitEnded(error))

    @initialize(already=st.booleans())
    def begin(self, already: bool) -> None:
        if already:
            self.calm()

    @rule()
    def calm(self) -> None:
        self.world.happen(STORE)
        self.world.settle()

    # It always ends.

    def teardown(self) -> None:
        """Once the world is kind again, all ranks train together, and the job comes to its end."""
        self.world.happen(STORE)
        self.world.settle()
        assert all(not pod.refused for pod in self.world.pods)
        if not self.world.state.finished:
            generations = {rank.generation for pod in self.world.pods for rank in pod.ranks}
            assert len(generations) == 1
            assert generations == {str(self.world.state.generation)}
            for pod in self.world.pods:
                for rank in pod.ranks:
                    self.world.speak(pod, rank, "done")
            self.world.settle()
        assert self.world.state.finished
        assert all(pod.finished for pod in self.world.pods)


HostileWorld.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestHostileWorld = HostileWorld.TestCase
