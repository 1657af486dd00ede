"""Whatever a cluster does to a job and to its operator, the plan's promises hold and the job ends."""

import asyncio
import contextlib

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from operator_.plan.builders import KEY
from operator_.plan.hostile_cluster import ApiDown, HostileCluster, Killed, Trouble
from operator_.plan.hostile_world import NODE_LOSS_SECONDS, NODES, ROUNDS, World
from ringtrain_operator.api.status import TERMINAL, JobPhase
from ringtrain_operator.plan.finish import GRACE
from ringtrain_operator.plan.observed import PodPhase
from ringtrain_operator.reconcile import reconcile

TROUBLES = st.none() | st.builds(
    Trouble, call=st.integers(1, 12), kind=st.sampled_from(["killed", "error", "conflict"]), after=st.booleans()
)
EXIT_CODES = st.sampled_from([1, 70, 80, 81, 82, 83, 84, 137])
CALM_PASSES = 150
SECONDS_BETWEEN = 3


class HostileLife(RuleBasedStateMachine):
    """Rules are what can happen between two calls of the operator; `teardown` lets the cluster calm down."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.runner = asyncio.Runner()

    @rule(trouble=TROUBLES, lag=st.integers(0, 3))
    def operator_passes(self, trouble: Trouble | None, lag: int) -> None:
        cluster = HostileCluster(self.world, trouble, lag)
        with contextlib.suppress(Killed, ApiDown):
            self.runner.run(reconcile(cluster, KEY, self.world.now))

    @rule(seconds=st.sampled_from([1, 5, 20]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)
        self.world.show()

    @precondition(lambda self: any(pod.phase is PodPhase.RUNNING for pod in self.world.pods.values()))
    @rule(data=st.data(), code=EXIT_CODES, evicted=st.booleans())
    def pod_ends(self, data: st.DataObject, code: int, evicted: bool) -> None:
        running = sorted(pod.name for pod in self.world.pods.values() if pod.phase is PodPhase.RUNNING)
        self.world.crash(data.draw(st.sampled_from(running)), code, "Evicted" if evicted else "Error")
        self.world.show()

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), force=st.booleans())
    def somebody_deletes(self, data: st.DataObject, force: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.pods)))
        if force:
            self.world.vanish(name)
        else:
            self.world.delete(name)
        self.world.show()

    @rule(name=st.sampled_from(NODES), remove=st.booleans())
    def node_dies(self, name: str, remove: bool) -> None:
        self.world.break_machine(name, remove=remove)
        self.world.show()

    @rule(name=st.sampled_from(NODES), rebooted=st.booleans())
    def node_returns(self, name: str, rebooted: bool) -> None:
        if not self.world.machines[name].ready:
            self.world.repair_machine(name, rebooted=rebooted)
            self.world.show()

    def teardown(self) -> None:
        """Nothing new happens; nodes that are dead stay so, but one."""
        if not any(machine.ready for machine in self.world.machines.values()):
            self.world.repair_machine(NODES[0], rebooted=False)
        for _ in range(CALM_PASSES):
            self.operator_passes(None, 0)
            self.time_passes(SECONDS_BETWEEN)
            if self.world.status.phase in TERMINAL:
                break
        self._check_end()

    def _check_end(self) -> None:
        world = self.world
        assert world.status.phase in TERMINAL, world.status.message
        for _ in range((int(GRACE.total_seconds()) + NODE_LOSS_SECONDS) // SECONDS_BETWEEN):
            self.operator_passes(None, 0)
            self.time_passes(SECONDS_BETWEEN)
        self.runner.close()
        assert not [pod for pod in world.pods.values() if pod.phase in (PodPhase.PENDING, PodPhase.RUNNING)]
        if world.status.phase is JobPhase.SUCCEEDED:
            assert world.done
            assert world.status.progress == f"{ROUNDS}/{ROUNDS}"
        else:
            assert len(world.faulty) > world.status.counted_restarts


TestHostileCluster = HostileLife.TestCase
TestHostileCluster.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None, derandomize=True, database=None
)
