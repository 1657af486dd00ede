"""Whatever dies, hangs or is cut off, at any moment: jobs end as an undisturbed one does; if recovery is exact, bit for
bit. `RINGTRAIN_TEST_CHAOS_MINUTES` says for how long, `RINGTRAIN_TEST_CHAOS_SEED` in which order.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from ringtrain.checkpoint.export import read_model
from ringtrain.checkpoint.listing import listed
from ringtrain.checkpoint.volume import candidates
from ringtrain_operator.api.status import TERMINAL
from support.chaos import Chaos
from support.cluster import Cluster
from support.kube import Object
from support.pod_history import PodHistory
from support.processes import processes, running, send
from support.trial import PATIENCE, Trial

MINUTES = float(os.environ.get("RINGTRAIN_TEST_CHAOS_MINUTES", "1.5"))
ROUNDS = int(200 * MINUTES)
REPLICAS = 3
RANKS = "ringtrain.runtime.standby"
"""The ranks' processes, and that of which they are forks."""
MORTAL = (RANKS, RANKS, "ringtrain.coordinator", "ringtrain.runtime.store", "ringtrain.agent")
PAUSE = 10.0
"""Seconds between two faults at most."""
OUTAGE = 25.0
"""Seconds at most for which a node or the operator is away: longer or shorter than it takes to give a node up."""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900 * (1 + MINUTES), func_only=True)]


class ClusterChaos(Chaos):
    """Of the test bed's nodes, an operator that runs here, and jobs of one namespace."""

    def __init__(self, cluster: Cluster, trial: Trial, jobs: tuple[str, ...], nodes: list[str], seed: int) -> None:
        kills, stops = (
            [partial(self._signal, module, number) for module in MORTAL] for number in (signal.SIGKILL, signal.SIGSTOP)
        )
        others = [self._delete_pod, self._delete_pod, self._kill_operator, self._kill_node, self._unplug_node]
        super().__init__(seed, [*kills, *stops, *others])
        self._cluster = cluster
        self._trial = trial
        self._jobs = jobs
        self._nodes = nodes
        self._away: dict[str, tuple[float, Callable[[], None]]] = {}
        """When what comes back, and how."""

    def rage(self, seconds: float, over: Callable[[], bool]) -> None:
        """Until then, or until `over`. All is well again after it."""
        begin = time.monotonic()
        try:
            while time.monotonic() < begin + seconds and not over():
                self.strike()
                self._bring_back(until=time.monotonic() + self.random.uniform(0, PAUSE))
        finally:
            for what in list(self._away):
                self._come_back(what)

    def _bring_back(self, until: float) -> None:
        while time.monotonic() < until:
            for what, (due, _) in list(self._away.items()):
                if due < time.monotonic():
                    self._come_back(what)
            time.sleep(0.1)

    def _come_back(self, what: str) -> None:
        if what in self._away:
            self._tell(f"{what} comes back")
            _, back = self._away.pop(what)
            back()

    def _leave(self, what: str, back: Callable[[], None]) -> None:
        self._away[what] = (time.monotonic() + self.random.uniform(0, OUTAGE), back)

    def _signal(self, module: str, number: signal.Signals) -> None:
        job = self.random.choice(self._jobs)
        pids = running(module, processes_of(self._trial, job))
        if pids:
            pid = self.random.choice(pids)
            self._tell(f"{number.name} to {pid}, {module} of {job}")
            send(pid, number)

    def _delete_pod(self) -> None:
        pods = self._trial.live_pods(self.random.choice(self._jobs))
        if pods:
            name = self.random.choice(pods)["metadata"]["name"]
            self._tell(f"pod {name} is deleted")
            self._trial.kube.delete("pod", name, "--wait=false", "--ignore-not-found")

    def _kill_operator(self) -> None:
        self._come_back("the operator")
        self._tell("the operator is killed")
        self._trial.operator.kill()
        self._leave("the operator", self._trial.operator.start)

    def _kill_node(self) -> None:
        self._come_back("the node")
        node = self.random.choice(self._nodes)
        self._tell(f"{node} loses power")
        self._cluster.kill_node(node)
        self._leave("the node", lambda: self._cluster.start_node(node))

    def _unplug_node(self) -> None:
        self._come_back("the node")
        node = self.random.choice(self._nodes)
        self._tell(f"{node} is cut off")
        self._cluster.unplug(node)
        self._leave("the node", lambda: self._cluster.plug(node))

    def _tell(self, what: str) -> None:
        self.told.append(what)
        print(time.strftime("%X"), what)  # noqa: T201 pytest shows it when the test fails


def test_nothing_that_goes_wrong_changes_what_is_learned(
    trial: Trial, cluster: Cluster, all_nodes: list[str], tmp_path: Path
) -> None:
    trial.submit("plain", spec(trial))
    until_over(trial, "plain")
    plain = finished(trial, cluster, "plain")

    jobs = ("exact", "live")
    trial.submit("exact", spec(trial, recovery="Exact", replicate="Always"))
    trial.submit("live", spec(trial))
    trial.until("both train", lambda: all(trial.status(job).get("round") for job in jobs))
    seed = int(os.environ.get("RINGTRAIN_TEST_CHAOS_SEED", random.randrange(10**6)))
    chaos = ClusterChaos(cluster, trial, jobs, all_nodes, seed)
    with (
        PodHistory(trial.kube, "exact", tmp_path / "exact") as first,
        PodHistory(trial.kube, "live", tmp_path / "live") as second,
    ):
        chaos.rage(60 * MINUTES, lambda: are_over(trial, *jobs))
        until_over(trial, *jobs)
    assert first.doubled() == second.doubled() == [], chaos.told

    exact, live = (finished(trial, cluster, job) for job in jobs)
    assert exact.keys() == plain.keys()
    assert [name for name in plain if not torch.equal(exact[name], plain[name])] == [], chaos.told
    assert live.keys() == plain.keys()
    losses = {job: float(trial.status(job)["loss"]) for job in ("plain", *jobs)}
    assert losses["exact"] == losses["plain"], chaos.told
    assert losses["live"] == pytest.approx(losses["plain"], rel=0.01), chaos.told


def spec(trial: Trial, recovery: str = "Live", replicate: str = "Auto") -> Object:
    made = trial.nano(
        replicas=REPLICAS,
        trainer={"rounds": ROUNDS},
        communication={"errorFeedback": "plain", "warmupRounds": 3, "verify": True},
        faultTolerance={"recovery": recovery, "nodeLossSeconds": 5, "maxRestarts": 1000},
    )
    made["checkpoint"]["replicate"] = replicate
    return made


def are_over(trial: Trial, *jobs: str) -> bool:
    return all(trial.status(job).get("phase") in TERMINAL for job in jobs)


def until_over(trial: Trial, *jobs: str) -> None:
    trial.kube.until(f"{jobs} are over", lambda: are_over(trial, *jobs), timeout=PATIENCE * (1 + MINUTES))


def finished(trial: Trial, cluster: Cluster, job: str) -> dict[str, torch.Tensor]:
    """The model of a job that has trained all its rounds, and of which nothing runs on."""
    status = trial.status(job)
    assert status["phase"] == "Succeeded", status
    assert (status["round"], status["totalRounds"], status["lastCheckpoint"]["round"]) == (ROUNDS, ROUNDS, ROUNDS)
    trial.until(f"no pod of {job} runs on", lambda: trial.live_pods(job) == [])
    trial.until(f"no process of {job} runs on", lambda: processes_of(trial, job) == [])
    assert trial.status(job)["phase"] == "Succeeded"
    claim = cluster.kube(trial.kube.namespace).get("pvc", f"{job}-checkpoints") or {}
    volume = cluster.kube().get("pv", claim["spec"]["volumeName"]) or {}
    folder = Path(volume["spec"]["hostPath"]["path"]) / job
    assert listed(folder).leftovers == ()
    newest, *_ = candidates(folder)
    assert newest.manifest is not None
    assert newest.round == ROUNDS
    return read_model(newest.path, newest.manifest, None)


def processes_of(trial: Trial, job: str) -> list[int]:
    return processes(RINGTRAIN_NAMESPACE=trial.kube.namespace, RINGTRAIN_JOB=job)
