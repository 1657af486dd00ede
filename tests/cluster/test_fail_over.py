"""Two operators, of which one leads."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import lone_pods
from support.kube import Kube
from support.operator_process import OperatorProcess

pytestmark = pytest.mark.cluster

JOB = "job"
LEASE = "operator"
SECONDS = 10
"""That the lease lasts: on a busy machine, a leader may not get to renew it for some of them."""


@dataclass
class Two:
    kube: Kube
    operators: tuple[OperatorProcess, OperatorProcess]

    def leader(self) -> str:
        lease = self.kube.get("lease", LEASE)
        return str(lease["spec"]["holderIdentity"]) if lease else ""

    def until_led(self, *, not_by: str = "") -> str:
        return self.kube.until("an operator leads", lambda: self.leader() if self.leader() != not_by else None)

    def until_pods(self, *names: str) -> None:
        self.kube.until(f"the pods are {names}", lambda: lone_pods.names(self.kube, JOB) == sorted(names))


@pytest.fixture
def two(kube: Kube, no_operator: Kube, tmp_path: Path) -> Iterator[Two]:
    first, second = (
        OperatorProcess(kube.namespace, tmp_path / name, LEASE=f"{kube.namespace}/{LEASE}", LEASE_SECONDS=str(SECONDS))
        for name in ("first.log", "second.log")
    )
    try:
        first.start()
        found = Two(kube, (first, second))
        found.until_led()
        second.start()
        kube.until("the second stands by", second.is_ready)
        yield found
    finally:
        for operator in (first, second):
            operator.kill()
            print(operator.log.read_text())  # noqa: T201 pytest shows it when the test fails


def test_the_other_follows_a_leader_that_is_killed(two: Two) -> None:
    killed, other = two.operators
    lone_pods.submit(two.kube, JOB)
    two.until_pods("job-0-0", "job-1-0")
    for pod in ("job-0-0", "job-1-0"):
        lone_pods.runs(two.kube, pod)
    before = two.leader()
    killed.kill()
    lone_pods.ends(two.kube, "job-1-0", 70)
    two.until_led(not_by=before)
    two.until_pods("job-0-0", "job-1-1")
    status = (two.kube.get("tj", JOB) or {})["status"]
    assert (status["epoch"], status["restarts"]) == (1, 1)
    # The one that was killed comes back, and stands by.
    leader = two.leader()
    killed.start()
    two.kube.until("it stands by", killed.is_ready)
    lone_pods.ends(two.kube, "job-0-0", 70)
    two.until_pods("job-0-2", "job-1-1")
    assert two.leader() == leader
    assert other.stop() == 0
    two.until_led(not_by=leader)


def test_a_leader_that_ends_gives_its_lease_back(two: Two) -> None:
    before = two.leader()
    assert two.operators[0].stop() == 0
    assert two.leader() != before
    two.until_led(not_by=before)


def test_a_leader_that_sleeps_too_long_ends_without_a_write(two: Two) -> None:
    asleep, _ = two.operators
    before = two.leader()
    asleep.pause()
    two.until_led(not_by=before)
    lone_pods.submit(two.kube, JOB)
    two.until_pods("job-0-0", "job-1-0")
    assert asleep.resume() != 0
    assert "the lease" in asleep.log.read_text()
    assert (two.kube.get("tj", JOB) or {})["status"]["epoch"] == 0
