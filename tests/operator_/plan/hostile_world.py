"""A model of a cluster that loses pods and nodes.

What the operator does to it is checked as it does it: a broken promise is an AssertionError in the middle of a pass.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from operator_.plan.builders import KEY, NOW, spec_with
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport, Progress
from ringtrain_operator.api.spec import FailureAction
from ringtrain_operator.api.status import TERMINAL, JobPhase, TrainingJobStatus
from ringtrain_operator.plan.observed import Job, Node, Observed, Pod, PodPhase
from ringtrain_operator.plan.result import DeletePod, EndPod, Event
from ringtrain_operator.plan.waiting import UNSCHEDULABLE

REPLICAS = 3
SIZES = (2, 3, 4)
ROOM = 6
"""Pods that find a node, at most."""
MIN_REPLICAS = 2
ELASTIC = {"minReplicas": MIN_REPLICAS, "waitSeconds": 10, "growAfterSeconds": 15}
ROUNDS = 12
CHECKPOINT_EVERY = 5
MAX_RESTARTS = 1
NODE_LOSS_SECONDS = 30
NODES = ("node-a", "node-b", "node-c", "node-d")
TTL_SECONDS = 7200
"""Longer than any life here."""
BY_RULE = 137
"""An exit code that a rule says is not to be counted."""
FATAL = 99
"""One that a rule says fails the job."""
UNCOUNTED = frozenset({int(ExitCode.PREEMPTED), int(ExitCode.STALE), BY_RULE})
RULES = (
    {"action": "RestartUncounted", "exitCodes": [BY_RULE]},
    {"action": "Ignore", "reasons": ["PodDeleted"]},
    {"action": "FailJob", "exitCodes": [FATAL]},
)


@dataclass
class Machine:
    ready: bool = True
    since: datetime = NOW
    exists: bool = True


@dataclass
class World:
    """What is really so. `history` holds what the API showed, oldest first, since the last status write."""

    now: datetime = NOW
    version: int = 1
    status: TrainingJobStatus = field(default_factory=TrainingJobStatus)
    pods: dict[str, Pod] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=lambda: {name: Machine() for name in NODES})
    suspend: bool = False
    replicas: int = REPLICAS
    active_deadline: int | None = None
    side_cars: bool = False
    """Something goes on running in pods whose training container has ended."""
    elastic: bool = False
    spares: int = 0
    gang: str = "None"
    room: int = ROOM
    generation: int = 1
    service: bool = False
    job_deleted: bool = False
    round: int = 0
    attempt: int = 0
    training: bool = False
    done: bool = False
    troubled: set[str] = field(default_factory=set)
    """Pods that something else than the operator ended or endangered."""
    faulty: set[str] = field(default_factory=set)
    """Those whose own fault it was."""
    sizes: dict[str, int] = field(default_factory=dict)
    """How many replicas each pod was told of."""
    rates: set[int | None] = field(default_factory=set)
    """What pods were told of communication, which administrators have a new default of every time."""
    replacements: Counter[int] = field(default_factory=Counter)
    """By replica, but for those that a rule ignores."""
    events: list[Event] = field(default_factory=list)
    history: list[Observed] = field(default_factory=list)

    @property
    def job(self) -> Job:
        spec = spec_with(
            suspend=self.suspend,
            replicas=self.replicas,
            activeDeadlineSeconds=self.active_deadline,
            spareReplicas=self.spares,
            scheduling={"gang": self.gang},
            elastic=ELASTIC if self.elastic else None,
            ttlSecondsAfterFinished=TTL_SECONDS,
            trainer={"rounds": ROUNDS, "data": {"paths": ["/data/*"]}},
            faultTolerance={"maxRestarts": MAX_RESTARTS, "nodeLossSeconds": NODE_LOSS_SECONDS, "rules": RULES},
        )
        return Job(
            key=KEY,
            uid="job-uid",
            resource_version=str(self.version),
            generation=self.generation,
            spec=spec,
            status=self.status,
            created=NOW,
            defaults={"communication": {"rate": 3 + self.version % 14}},
        )

    @property
    def training_pods(self) -> list[str]:
        """Names of those whose training container runs."""
        return sorted(pod.name for pod in self.pods.values() if self._runs(pod))

    @property
    def free(self) -> int:
        """Places that no pod has, or is about to get."""
        return max(0, self.room - sum(map(self._is_live, self.pods.values())))

    def show(self) -> None:
        """Adds the present to what the API has shown."""
        nodes = {n: Node(name=n, ready=m.ready, since=m.since) for n, m in self.machines.items() if m.exists}
        self.history.append(
            Observed(
                pods=tuple(self.pods.values()),
                nodes=nodes,
                service_exists=self.service,
                claim_exists=True,
                report=self._report(),
            )
        )

    # What a user does.

    def edit(self, *, suspend: bool, replicas: int) -> None:
        if (suspend, replicas) != (self.suspend, self.replicas):
            self.suspend, self.replicas = suspend, replicas
            self.generation, self.version = self.generation + 1, self.version + 1

    # What the environment does.

    def pass_time(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        for pod in list(self.pods.values()):
            self._kubelet(pod)
        self._train()
        for pod in self.pods.values():
            if pod.node is not None and self._is_lost(pod.node):
                self.troubled.add(pod.name)

    def crash(self, name: str, code: int, reason: str = "Error") -> None:
        self.troubled.add(name)
        if not self.pods[name].holding and code not in UNCOUNTED and reason != "Evicted":
            self.faulty.add(name)
        self._end(name, code, reason)

    def delete(self, name: str) -> None:
        self.troubled.add(name)
        self._change(name, deleting=True)

    def vanish(self, name: str) -> None:
        self.troubled.add(name)
        del self.pods[name]

    def break_machine(self, name: str, *, remove: bool) -> None:
        machine = self.machines[name]
        machine.exists = machine.exists and not remove
        if machine.ready:
            machine.ready, machine.since = False, self.now
        for pod in self.pods.values():
            if pod.node == name:
                self.troubled.add(pod.name)

    def repair_machine(self, name: str, *, rebooted: bool) -> None:
        """After a reboot its containers are gone; otherwise it was cut off and they still run."""
        self.machines[name] = Machine(since=self.now)
        for pod in list(self.pods.values()):
            if rebooted and pod.node == name and self._runs(pod):
                self.crash(pod.name, 137, "Evicted")

    def _kubelet(self, pod: Pod) -> None:
        if pod.node is None:
            ready = [name for name, machine in self.machines.items() if machine.ready]
            if pod.deleting:
                del self.pods[pod.name]
            elif ready and self._placed() < self.room:
                self._change(pod.name, node=ready[pod.index % len(ready)], waiting_reason="")
            else:
                self._change(pod.name, waiting_reason=UNSCHEDULABLE)
        elif not self.machines[pod.node].ready:
            return
        elif pod.deleting:
            if self._runs(pod):
                self._end(pod.name, int(ExitCode.PREEMPTED), "Error")
            else:
                del self.pods[pod.name]
        elif pod.phase is PodPhase.PENDING:
            self._change(pod.name, phase=PodPhase.RUNNING)
        elif self.done and self._runs(pod) and not pod.holding:
            self._end(pod.name, 0, "Completed")

    def _train(self) -> None:
        live = [pod for pod in self.pods.values() if self._is_live(pod) and not pod.holding]
        newest = {pod.index: pod for pod in sorted(live, key=lambda pod: pod.epoch)}
        sizes = {self.sizes[pod.name] for pod in live}
        complete = sizes == {len(newest)} and all(
            self._runs(pod) and pod.node is not None and self.machines[pod.node].ready for pod in newest.values()
        )
        if self.training and not complete:
            self.round -= self.round % CHECKPOINT_EVERY
            self.attempt += 1
        elif self.training:
            self.round = min(self.round + 1, ROUNDS)
            self.done = self.round == ROUNDS
        self.training = complete

    def _placed(self) -> int:
        return sum(pod.node is not None and self._is_live(pod) for pod in self.pods.values())

    def _report(self) -> JobReport | None:
        replicas = [pod for pod in self.pods.values() if not pod.holding]
        if not any(map(self._runs, replicas)):
            return None
        epoch = max(pod.epoch for pod in replicas)
        return JobReport(
            generation=f"{epoch}.{self.attempt}" if self.training else None,
            phase=Phase.TRAINING if self.training else Phase.WAITING,
            progress=Progress(round=self.round, total_rounds=ROUNDS, loss=3.0),
            coordinator_id="one",
        )

    def _is_lost(self, node: str) -> bool:
        machine = self.machines[node]
        return not machine.exists or (
            not machine.ready and self.now - machine.since >= timedelta(seconds=NODE_LOSS_SECONDS)
        )

    @staticmethod
    def _is_live(pod: Pod) -> bool:
        return pod.phase in (PodPhase.PENDING, PodPhase.RUNNING)

    @staticmethod
    def _runs(pod: Pod) -> bool:
        return pod.phase is PodPhase.RUNNING and pod.exit_code is None

    def _end(self, name: str, code: int, reason: str) -> None:
        whole = reason == "Evicted" or not self.side_cars
        ended = PodPhase.FAILED if code else PodPhase.SUCCEEDED
        self._change(name, phase=ended if whole else PodPhase.RUNNING, exit_code=code, reason=reason)

    def _change(self, name: str, **fields: object) -> None:
        self.pods[name] = replace(self.pods[name], **fields)  # type: ignore[arg-type]

    # What the operator does: checked.

    def stored(self, status: TrainingJobStatus) -> None:
        before = self.status
        if before.phase in TERMINAL:
            assert status.phase is before.phase
            assert status.members == before.members
            assert (status.restarts, status.epoch) == (before.restarts, before.epoch)
        if before.members and status.members:
            self._replaced(status)
        else:
            assert status.epoch == before.epoch + bool(before.members)
            assert all(member.epoch == status.epoch for member in status.members)
        # Several replicas at once are one restart, the same one again is another.
        assert max(self.replacements.values(), default=0) <= status.restarts <= self.replacements.total()
        assert status.counted_restarts <= MAX_RESTARTS
        if status.reduced is not None:
            assert self.elastic
            assert MIN_REPLICAS <= status.reduced.replicas < status.reduced.of
            assert len(status.members) in (0, status.reduced.replicas)
        if status.phase is JobPhase.SUSPENDED:
            assert not any(map(self._is_live, self.pods.values()))
        acted_on = {failure.pod for failure in before.failures}
        for failure in status.failures:
            if failure in before.failures:
                continue
            assert failure.pod not in acted_on
            assert failure.pod in self.troubled
            assert failure.pod in self.faulty or not failure.counted
        self.status, self.version = status, self.version + 1
        self.history.clear()

    def _replaced(self, status: TrainingJobStatus) -> None:
        before = self.status
        epochs = {member.index: member.epoch for member in before.members}
        raised = [member for member in status.members if member.epoch != epochs[member.index]]
        assert all(member.epoch > before.epoch for member in raised)
        assert status.epoch == max([before.epoch, *(member.epoch for member in raised)])
        self.replacements.update(member.index for member in raised)
        acted_on = [failure for failure in status.failures if failure not in before.failures]
        if status.phase not in TERMINAL:
            self.replacements.subtract(f.replica for f in acted_on if f.action is FailureAction.IGNORE)

    def created(self, manifest: Pod, size: int) -> None:
        """`size`: how many replicas it was told of."""
        assert not self.suspend
        assert self.status.phase not in TERMINAL
        if manifest.holding:
            assert manifest.index >= len(self.status.members) > 0
            self.pods[manifest.name] = manifest
            return
        live = [p for p in self.pods.values() if self._is_live(p) and not p.holding]
        told_otherwise = [p.name for p in live if self.sizes[p.name] != size]
        assert not told_otherwise, f"{manifest.name} meets {told_otherwise}"
        self.sizes[manifest.name] = size
        others = [p.name for p in self.pods.values() if p.index == manifest.index and p.phase is not PodPhase.FAILED]
        assert not others, f"{manifest.name} is created beside {others}"
        member = next(member for member in self.status.members if member.index == manifest.index)
        assert member.epoch == manifest.epoch, "the status must know of a pod before it is created"
        self.pods[manifest.name] = manifest

    def removed(self, delete: DeletePod) -> None:
        pod = self.pods.get(delete.name)
        if pod is None or pod.uid != delete.uid:
            return
        current = {(member.index, member.epoch) for member in self.status.members}
        stale = (pod.index, pod.epoch) not in current
        assert stale or pod.holding or self.status.phase in TERMINAL, f"{pod.name} stands for a replica and is deleted"
        if delete.force:
            assert pod.name in self.troubled, "only what lies on a lost node is removed by force"
            del self.pods[delete.name]
        else:
            self._change(delete.name, deleting=True)

    def ended_whole(self, end: EndPod) -> None:
        pod = self.pods.get(end.name)
        if pod is None or pod.uid != end.uid:
            return
        assert pod.exit_code is not None, f"{pod.name} trains and is ended"
        self._change(end.name, phase=PodPhase.FAILED)

    def deleted_job(self) -> None:
        assert self.status.phase in TERMINAL
        assert self.status.completion_time is not None
        assert self.now - self.status.completion_time >= timedelta(seconds=TTL_SECONDS)
        self.job_deleted = True
