from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from operator_.plan.builders import NODES, NOW, ended, job, nodes, pod
from ringtrain.contract.report import TerminationMessage
from ringtrain_operator.api.spec import FailureAction, FailureRule
from ringtrain_operator.api.status import Failure, Member
from ringtrain_operator.plan.failures import describe, failure_of, has_ended, is_done
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Node, Pod, PodPhase

MEMBER = Member(index=0, epoch=0, pod_uid="uid-0-0")


def failure(
    shown: Pod | None,
    member: Member = MEMBER,
    on: dict[str, Node] = NODES,
    rules: Sequence[FailureRule] = (),
) -> Failure | None:
    return failure_of(member, shown, job(generation=4), NodeHealth(on, 30, NOW), rules, NOW)


def certain(shown: Pod | None, on: dict[str, Node] = NODES) -> Failure:
    found = failure(shown, on=on)
    assert found is not None
    return found


def test_a_running_pod_has_not_failed() -> None:
    assert failure(pod(0)) is None
    assert failure(pod(0, phase=PodPhase.PENDING, node=None)) is None
    assert failure(pod(0, phase=PodPhase.UNKNOWN)) is None


def test_a_pod_that_ended_well_has_not_failed() -> None:
    assert failure(ended(0, code=0)) is None
    assert is_done(ended(0, code=0))
    assert is_done(pod(0, phase=PodPhase.SUCCEEDED))
    assert not is_done(ended(0, code=1))


def test_a_pod_that_was_never_seen_is_not_missed() -> None:
    assert failure(None, Member(index=0, epoch=0)) is None


def test_a_pod_that_was_seen_and_is_gone_was_deleted() -> None:
    found = certain(None)
    assert (found.reason, found.counted, found.pod, found.node) == ("PodDeleted", False, "gpt-0-0", None)


def test_a_pod_of_the_same_name_and_another_uid_is_not_the_member() -> None:
    assert certain(pod(0, uid="other")).reason == "PodDeleted"


def test_a_pod_that_somebody_deletes_has_failed_before_it_ends() -> None:
    found = certain(pod(0, deleting=True))
    assert (found.reason, found.counted, found.node) == ("PodDeleted", False, "node-0")


def test_the_cluster_says_why_it_deletes() -> None:
    found = certain(pod(0, deleting=True, reason="EvictionByEvictionAPI", message="node drained"))
    assert (found.reason, found.message, found.counted) == ("EvictionByEvictionAPI", "node drained", False)


def test_a_pod_that_does_not_run_yet_is_given_up_when_the_spec_is_changed() -> None:
    stuck = pod(0, phase=PodPhase.PENDING, waiting_reason="ImagePullBackOff", spec_generation=3)
    found = certain(stuck)
    assert (found.reason, found.counted) == ("SpecChanged", False)
    assert failure(replace(stuck, spec_generation=4)) is None
    assert failure(replace(stuck, spec_generation=None)) is None
    assert failure(replace(stuck, phase=PodPhase.RUNNING)) is None


def test_a_pod_is_lost_with_its_node() -> None:
    dead = nodes("node-0", ready=False, age=31)
    found = certain(pod(0), dead)
    assert (found.reason, found.counted) == ("NodeLost", False)
    assert certain(pod(0), {}).reason == "NodeLost"


def test_when_it_happened_is_told_where_the_cluster_does() -> None:
    before = NOW - timedelta(seconds=3)
    assert certain(ended(0, code=1, ended=before)).happened == before
    assert certain(ended(0, code=1)).happened is None
    assert certain(pod(0), nodes("node-0", ready=False, age=40)).happened == NOW - timedelta(seconds=40)
    assert certain(pod(0), {}).happened is None
    assert certain(pod(0, deleting=True)).happened is None
    assert certain(None).happened is None


def test_a_node_that_is_not_ready_for_a_moment_loses_nothing() -> None:
    assert failure(pod(0), on=nodes("node-0", ready=False, age=5)) is None


def test_a_pod_that_is_evicted_from_a_doubtful_node_is_lost_with_it() -> None:
    assert certain(pod(0, deleting=True), nodes("node-0", ready=False, age=11)).reason == "NodeLost"


@pytest.mark.parametrize(
    ("code", "reason", "counted"),
    [
        (1, "Crashed", True),
        (70, "UserError", True),
        (78, "BadConfiguration", False),
        (80, "Preempted", False),
        (81, "LostPeer", True),
        (82, "Hang", True),
        (83, "OutOfMemory", True),
        (84, "Stale", False),
        (85, "EndedWithPeer", False),
        (86, "Unfit", True),
        (137, "Signal9", True),
    ],
)
def test_the_exit_code_decides(code: int, reason: str, counted: bool) -> None:
    found = certain(ended(0, code=code))
    assert (found.reason, found.counted, found.exit_code) == (reason, counted, code)


def test_the_exit_code_of_a_deleted_pod_counts_once_it_ended() -> None:
    assert certain(ended(0, code=80, deleting=True)).reason == "Preempted"


def test_a_container_that_ended_beside_a_side_car_has_failed_although_the_pod_runs() -> None:
    found = certain(pod(0, exit_code=70))
    assert found.reason == "UserError"
    assert has_ended(pod(0, exit_code=70))


def test_the_agent_says_what_happened() -> None:
    said = TerminationMessage(exit_code=82, reason="Hang", message="rank 1 was silent for 120 s", rank=1, round=7)
    said = said.model_copy(update={"generation": "0.7"})
    found = certain(ended(0, code=82, message=said.to_json()))
    assert (found.rank, found.message, found.generation) == (1, "rank 1 was silent for 120 s", "0.7")
    assert describe(found) == "rank 1 on pod gpt-0-0, node node-0: Hang: rank 1 was silent for 120 s"


def test_what_is_no_message_of_an_agent_is_quoted() -> None:
    found = certain(ended(0, code=1, message="Traceback ...\n"))
    assert found.message == "Traceback ..."
    assert describe(found) == "replica 0 on pod gpt-0-0, node node-0: Crashed: Traceback ..."


def test_a_long_message_is_cut() -> None:
    assert len(certain(ended(0, message="x" * 5000)).message) == 500


def test_the_kernel_kills_for_memory() -> None:
    found = certain(ended(0, code=137, reason="OOMKilled"))
    assert (found.reason, found.counted) == ("OutOfMemory", True)


def test_a_container_that_could_not_start_keeps_the_runtimes_reason() -> None:
    assert certain(ended(0, code=128, reason="StartError")).reason == "StartError"


@pytest.mark.parametrize("reason", ["Evicted", "Preempting", "NodeShutdown", "OutOfcpu", "DeletionByTaintManager"])
def test_what_the_cluster_does_is_not_counted(reason: str) -> None:
    found = certain(ended(0, code=137, reason=reason, message="The node was low on resource: memory."))
    assert (found.reason, found.counted) == (reason, False)


def test_an_eviction_that_the_pod_earned_is_counted() -> None:
    message = 'Usage of EmptyDir volume "shm" exceeds the limit "2Gi". '
    found = certain(ended(0, code=80, reason="Evicted", message=message, conditions=frozenset({"DisruptionTarget"})))
    assert (found.reason, found.counted) == ("EvictedOverLimit", True)


@pytest.mark.parametrize("reason", ["Unknown", "ContainerStatusUnknown"])
def test_a_container_that_its_node_lost_track_of_is_not_counted(reason: str) -> None:
    found = certain(ended(0, code=255, reason=reason))
    assert (found.reason, found.counted) == ("ContainerStatusUnknown", False)


def test_a_pod_that_failed_without_a_word_is_counted() -> None:
    found = certain(pod(0, phase=PodPhase.FAILED))
    assert (found.reason, found.exit_code, found.counted) == ("PodFailed", None, True)


def test_only_a_configuration_that_cannot_work_fails_the_job() -> None:
    assert certain(ended(0, code=78)).action is FailureAction.FAIL_JOB
    assert certain(ended(0, code=70)).action is FailureAction.RESTART
    assert certain(ended(0, code=78, reason="Evicted")).action is FailureAction.RESTART_UNCOUNTED


def test_what_the_cluster_says_of_a_pod_is_known_to_rules() -> None:
    rules = [FailureRule(action=FailureAction.IGNORE, pod_conditions=("DisruptionTarget",))]
    drained = ended(0, code=80, conditions=frozenset({"DisruptionTarget", "PodScheduled"}))
    for shown, on in ((drained, NODES), (pod(0, deleting=True, reason="Preempting"), NODES), (pod(0), {})):
        found = failure(shown, on=on, rules=rules)
        assert found is not None
        assert (found.action, found.counted) == (FailureAction.IGNORE, False)
    found = failure(pod(0, deleting=True), rules=rules)
    assert found is not None
    assert found.action is FailureAction.RESTART_UNCOUNTED
