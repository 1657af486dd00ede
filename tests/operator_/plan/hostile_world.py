"""A model of a cluster that loses pods and nodes.

What the operator does to it is checked as it does it: a broken promise is an AssertionError in the middle of a pass.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from operator_.plan.builders import KEY, NOW, spec_with
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport, Progress
from ringtrain_operator.api.status import TERMINAL, TrainingJobStatus
from ringtrain_operator.plan.observed import Job, Node, Observed, Pod, PodPhase
from ringtrain_operator.plan.result import DeletePod, Event

REPLICAS = 3
ROUNDS = 12
CHECKPOINT_EVERY = 5
MAX_RESTARTS = 1
NODE_LOSS_SECONDS = 30
NODES = ("node-a", "node-b", "node-c", "node-d")
UNCOUNTED = frozenset({int(ExitCode.PREEMPTED), int(ExitCode.STALE)})


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
    service: bool = False
    round: int = 0
    attempt: int = 0
    training: bool = False
    done: bool = False
    troubled: set[str] = field(default_factory=set)
    """Pods that something else than the operator ended or endangered."""
    faulty: set[str] = field(default_factory=set)
    """Those whose own fault it was."""
    replacements: int = 0
    events: list[Event] = field(default_factory=list)
    history: list[Observed] = field(default_factory=list)

    @property
    def job(self) -> Job:
        spec = spec_with(
            replicas=REPLICAS,
            trainer={"rounds": ROUNDS, "data": {"paths": ["/data/*"]}},
            checkpoint=None,
            faultTolerance={"maxRestarts": MAX_RESTARTS, "nodeLossSeconds": NODE_LOSS_SECONDS},
        )
        del spec["checkpoint"]
        return Job(
            key=KEY,
            uid="job-uid",
            resource_version=str(self.version),
            generation=1,
            spec=spec,
            status=self.status,
            created=NOW,
        )

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
        if code not in UNCOUNTED and reason != "Evicted":
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
            elif ready:
                self._change(pod.name, node=ready[pod.index % len(ready)])
        elif not self.machines[pod.node].ready:
            return
        elif pod.deleting:
            if self._runs(pod):
                self._end(pod.name, int(ExitCode.PREEMPTED), "Error")
            else:
                del self.pods[pod.name]
        elif pod.phase is PodPhase.PENDING:
            self._change(pod.name, phase=PodPhase.RUNNING)
        elif self.done and self._runs(pod):
            self._end(pod.name, 0, "Completed")

    def _train(self) -> None:
        newest = {pod.index: pod for pod in sorted(self.pods.values(), key=lambda pod: pod.epoch)}
        complete = len(newest) == REPLICAS and all(
            self._runs(pod) and pod.node is not None and self.machines[pod.node].ready for pod in newest.values()
        )
        if self.training and not complete:
            self.round -= self.round % CHECKPOINT_EVERY
            self.attempt += 1
        elif self.training:
            self.round = min(self.round + 1, ROUNDS)
            self.done = self.round == ROUNDS
        self.training = complete

    def _report(self) -> JobReport | None:
        if not any(self._runs(pod) for pod in self.pods.values()):
            return None
        epoch = max(pod.epoch for pod in self.pods.values())
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
    def _runs(pod: Pod) -> bool:
        return pod.phase is PodPhase.RUNNING

    def _end(self, name: str, code: int, reason: str) -> None:
        phase = PodPhase.FAILED if code else PodPhase.SUCCEEDED
        self._change(name, phase=phase, exit_code=code, reason=reason)

    def _change(self, name: str, **fields: object) -> None:
        self.pods[name] = replace(self.pods[name], **fields)  # type: ignore[arg-type]

    # What the operator does: checked.

    def stored(self, status: TrainingJobStatus) -> None:
        before = self.status
        if before.phase in TERMINAL:
            assert status.phase is before.phase
            assert status.members == before.members
            assert (status.restarts, status.epoch) == (before.restarts, before.epoch)
        epochs = {member.index: member.epoch for member in before.members}
        raised = [m for m in status.members if m.epoch != epochs.get(m.index, m.epoch)]
        assert all(m.epoch > before.epoch for m in raised)
        assert status.epoch == max([before.epoch, *(m.epoch for m in raised)])
        self.replacements += len(raised)
        assert status.restarts == self.replacements
        assert status.counted_restarts <= MAX_RESTARTS
        acted_on = {failure.pod for failure in before.failures}
        for failure in status.failures:
            if failure in before.failures:
                continue
            assert failure.pod not in acted_on
            assert failure.pod in self.troubled
            assert failure.pod in self.faulty or not failure.counted
        self.status, self.version = status, self.version + 1
        self.history.clear()

    def created(self, manifest: Pod) -> None:
        others = [p.name for p in self.pods.values() if p.index == manifest.index and p.phase is not PodPhase.FAILED]
        assert not others, f"{manifest.name} is created beside {others}"
        member = next(member for member in self.status.members if member.index == manifest.index)
        assert member.epoch == manifest.epoch, "the status must know of a pod before it is created"
        assert self.status.phase not in TERMINAL
        self.pods[manifest.name] = manifest

    def removed(self, delete: DeletePod) -> None:
        pod = self.pods.get(delete.name)
        if pod is None or pod.uid != delete.uid:
            return
        current = {(member.index, member.epoch) for member in self.status.members}
        stale = (pod.index, pod.epoch) not in current
        assert stale or self.status.phase in TERMINAL, f"{pod.name} stands for a replica and is deleted"
        if delete.force:
            assert pod.name in self.troubled, "only what lies on a lost node is removed by force"
            del self.pods[delete.name]
        else:
            self._change(delete.name, deleting=True)
