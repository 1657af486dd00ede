from dataclasses import replace
from typing import Any

import pytest

from operator_.plan.builders import NODES, NOW, ended, job, pod, spec_with, status
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan.conditions import SCHEDULABLE, find
from ringtrain_operator.plan.observed import Job, Observed, Pod
from ringtrain_operator.plan.plan import plan
from ringtrain_operator.plan.result import Plan

KUEUE = {"gang": "Kueue", "queueName": "team-a"}
QUEUE, GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"


def group(scheduling: dict[str, Any], of: TrainingJobStatus | None = None, **fields: Any) -> Job:
    return job(spec_with(scheduling=scheduling, **fields), of)


def observed(*pods: Pod) -> Observed:
    return Observed(pods=pods, nodes=NODES, service_exists=True, claim_exists=True)


def manifests(of: Plan, kind: str) -> list[dict[str, Any]]:
    return [dict(create.manifest) for create in of.creates if create.manifest["kind"] == kind]


def groups(of: Plan) -> set[str]:
    return {made["metadata"]["labels"][GROUP] for made in manifests(of, "Pod")}


def test_pods_of_kueue_are_a_group_in_a_queue() -> None:
    begun = plan(group(KUEUE), observed(), NOW)
    pods = manifests(begun, "Pod")
    assert len(pods) == 3
    assert not manifests(begun, "PodGroup")
    for made in pods:
        labels, annotations = made["metadata"]["labels"], made["metadata"]["annotations"]
        assert (labels[QUEUE], labels[GROUP]) == ("team-a", "gpt-0")
        assert annotations["kueue.x-k8s.io/pod-group-total-count"] == "3"
        assert annotations["kueue.x-k8s.io/retriable-in-group"] == "false"
        assert "schedulerName" not in made["spec"]
    assert begun.status.pod_group == "gpt-0"


def test_a_replacement_joins_the_group_while_others_of_it_are_left() -> None:
    lost = plan(group(KUEUE, status(0, 0, 0, pod_group="gpt-0")), observed(ended(0), pod(1), pod(2)), NOW)
    assert (groups(lost), lost.status.epoch) == ({"gpt-0"}, 1)


def test_when_none_is_left_the_group_has_ended_and_another_begins() -> None:
    lost = plan(group(KUEUE, status(0, 0, 0, pod_group="gpt-0")), observed(*(ended(i, code=80) for i in range(3))), NOW)
    assert groups(lost) == {"gpt-1"}
    again = plan(group(KUEUE, status(epoch=4, pod_group="gpt-0")), observed(), NOW)
    assert groups(again) == {"gpt-4"}


def test_pods_that_kueue_does_not_know_are_told_of_once() -> None:
    running = group(KUEUE, status(0, 0, 0, pod_group="gpt-0"))
    unknown = plan(running, observed(pod(0, queued=True), pod(1), pod(2)), NOW)
    assert [event.reason for event in unknown.events if event.type == "Warning"] == ["NotQueued"]
    again = plan(replace(running, status=unknown.status), observed(pod(0), pod(1), pod(2)), NOW)
    assert not [event for event in again.events if event.reason == "NotQueued"]
    known = plan(running, observed(*(pod(index, queued=True) for index in range(3))), NOW)
    found = find(known.status, SCHEDULABLE)
    assert found is not None
    assert (found.status, found.reason) == ("True", "Queued")


def test_volcano_has_its_pod_group_and_its_scheduler() -> None:
    scheduling = {"gang": "Volcano", "queueName": "team-a", "priorityClassName": "high"}
    begun = plan(group(scheduling), observed(), NOW)
    (made,) = manifests(begun, "PodGroup")
    assert (made["apiVersion"], made["metadata"]["name"]) == ("scheduling.volcano.sh/v1beta1", "gpt")
    assert made["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
    assert made["spec"] == {"minMember": 3, "queue": "team-a", "priorityClassName": "high"}
    for replica in manifests(begun, "Pod"):
        assert replica["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "gpt"
        assert (replica["spec"]["schedulerName"], replica["spec"]["priorityClassName"]) == ("volcano", "high")


def test_another_scheduler_may_be_volcano() -> None:
    (first, *_) = manifests(plan(group({"gang": "Volcano", "schedulerName": "v2"}), observed(), NOW), "Pod")
    assert first["spec"]["schedulerName"] == "v2"


def test_scheduler_plugins_have_their_pod_group() -> None:
    begun = plan(group({"gang": "Coscheduling", "priorityClassName": "high"}), observed(), NOW)
    (made,) = manifests(begun, "PodGroup")
    assert (made["apiVersion"], made["spec"]) == ("scheduling.x-k8s.io/v1alpha1", {"minMember": 3})
    for replica in manifests(begun, "Pod"):
        assert replica["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "gpt"


@pytest.mark.parametrize("gang", ["Volcano", "Coscheduling"])
def test_the_group_is_said_again_with_replacements_and_not_without(gang: str) -> None:
    running = group({"gang": gang}, status(0, 0, 0))
    assert not manifests(plan(running, observed(pod(0), pod(1), pod(2)), NOW), "PodGroup")
    assert len(manifests(plan(running, observed(pod(0), pod(1), ended(2)), NOW), "PodGroup")) == 1


def test_the_group_of_a_job_that_has_pods_cannot_change() -> None:
    begun = plan(group(KUEUE), observed(), NOW).status
    changed = plan(group(KUEUE | {"queueName": "team-b"}, begun), observed(pod(0), pod(1), pod(2)), NOW)
    assert 'spec.scheduling.queueName: cannot change from "team-a" to "team-b"' in changed.events[0].message


def test_without_a_gang_nothing_is_added() -> None:
    begun = plan(group({}), observed(), NOW)
    assert not manifests(begun, "PodGroup")
    keys = {key for made in manifests(begun, "Pod") for key in made["metadata"]["labels"]}
    assert not [key for key in keys if "kueue" in key or "scheduling" in key]
    assert begun.status.pod_group == ""
