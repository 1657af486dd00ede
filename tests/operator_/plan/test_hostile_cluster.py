"""Whatever a cluster does to a job and to its operator, the plan's promises hold and the job ends."""

import asyncio
import contextlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from operator_.plan.builders import KEY
from operator_.plan.hostile_cluster import ApiDown, HostileCluster, Killed, Trouble
from operator_.plan.hostile_world import (
    FATAL,
    MIN_REPLICAS,
    NODE_LOSS_SECONDS,
    NODES,
    ROOM,
    ROUNDS,
    SIZES,
    TTL_SECONDS,
    World,
)
from ringtrain_operator.api.status import TERMINAL
from ringtrain_operator.plan.conditions import FAILED, find
from ringtrain_operator.plan.finish import GRACE
from ringtrain_operator.plan.observed import PodPhase
from ringtrain_operator.reconcile import reconcile

TROUBLES = st.none() | st.builds(
    Trouble, call=st.integers(1, 12), kind=st.sampled_from(["killed", "error", "conflict"]), after=st.booleans()
)
EXIT_CODES = st.sampled_from([1, 70, 80, 81, 82, 83, 84, 137, FATAL])
CALM_PASSES = 150
PASSES_IN_NEED = 15
"""So few that a job which goes on with fewer replicas is not always done."""
SECONDS_BETWEEN = 3


class HostileLife(RuleBasedStateMachine):
    """Rules are what can happen between two calls of the operator; `teardown` lets the cluster calm down."""

    @initialize(
        active_deadline=st.sampled_from([None, None, 300]),
        side_cars=st.booleans(),
        elastic=st.booleans(),
        spares=st.sampled_from([0, 1]),
        gang=st.sampled_from(["None", "Operator"]),
        last_room=st.sampled_from([MIN_REPLICAS, ROOM]),
    )
    def begin(
        self, active_deadline: int | None, side_cars: bool, elastic: bool, spares: int, gang: str, last_room: int
    ) -> None:
        self.last_room = last_room
        self.world = World(
            active_deadline=active_deadline, side_cars=side_cars, elastic=elastic, spares=spares, gang=gang
        )
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

    @precondition(lambda self: self.world.training_pods)
    @rule(data=st.data(), code=EXIT_CODES, evicted=st.booleans())
    def pod_ends(self, data: st.DataObject, code: int, evicted: bool) -> None:
        self.world.crash(data.draw(st.sampled_from(self.world.training_pods)), code, "Evicted" if evicted else "Error")
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

    @rule(suspend=st.booleans(), replicas=st.sampled_from(SIZES))
    def user_edits(self, suspend: bool, replicas: int) -> None:
        self.world.edit(suspend=suspend, replicas=replicas)

    @rule(room=st.integers(0, ROOM))
    def room_changes(self, room: int) -> None:
        self.world.room = room

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
        self.world.edit(suspend=False, replicas=self.world.replicas)
        if self.world.elastic:
            # There is room for the fewest only, for a while or for ever.
            self.world.room = MIN_REPLICAS
            self._calm(PASSES_IN_NEED)
        self.world.room = self.last_room if self.world.elastic else ROOM
        if not any(machine.ready for machine in self.world.machines.values()):
            self.world.repair_machine(NODES[0], rebooted=False)
        self._calm(CALM_PASSES)
        self._check_end()

    def _calm(self, passes: int) -> None:
        for _ in range(passes):
            if self.world.status.phase in TERMINAL:
                break
            self.operator_passes(None, 0)
            self.time_passes(SECONDS_BETWEEN)

    def _check_end(self) -> None:
        world = self.world
        assert world.status.phase in TERMINAL, world.status.message
        for _ in range((int(GRACE.total_seconds()) + NODE_LOSS_SECONDS) // SECONDS_BETWEEN):
            self.operator_passes(None, 0)
            self.time_passes(SECONDS_BETWEEN)
        assert not [pod for pod in world.pods.values() if pod.phase in (PodPhase.PENDING, PodPhase.RUNNING)]
        assert not world.job_deleted
        self.time_passes(TTL_SECONDS)
        self.operator_passes(None, 0)
        self.runner.close()
        assert world.job_deleted
        failed = find(world.status, FAILED)
        if failed is None:
            assert world.done
            assert world.status.progress == f"{ROUNDS}/{ROUNDS}"
        elif failed.reason == "DeadlineExceeded":
            assert world.active_deadline is not None
        elif failed.reason == "MaxRestartsExceeded":
            assert len(world.faulty) > world.status.counted_restarts
        else:
            assert FATAL in [failure.exit_code for failure in world.status.failures]


TestHostileCluster = pytest.mark.timeout(900)(HostileLife.TestCase)
TestHostileCluster.settings = settings(
    max_examples=1000, stateful_step_count=40, deadline=None, derandomize=True, database=None
)
