from typing import Any

from ringtrain_operator.api.pruning import pruned
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus

RULES = {"rules": [{"action": "Ignore", "reasons": ["X"], "old": 1}, {"action": "Retry", "reasons": [3]}], "older": {}}


def test_what_the_model_knows_is_kept_as_it_is() -> None:
    raw: dict[str, Any] = {"image": "i", "template": {"spec": {"anything": {"at": "all"}}}}
    assert pruned(TrainingJobSpec, raw) is raw


def test_fields_that_the_model_does_not_know_go_wherever_they_are() -> None:
    raw = {"image": "i", "faultTolerance": RULES, "oldest": [1]}
    assert pruned(TrainingJobSpec, raw) == {
        "image": "i",
        "faultTolerance": {"rules": [{"action": "Ignore", "reasons": ["X"]}, {"action": "Retry", "reasons": [3]}]},
    }
    assert "oldest" in raw


def test_what_is_wrong_otherwise_is_left_for_the_validation() -> None:
    raw = {"replicas": "three"}
    assert pruned(TrainingJobSpec, raw) is raw


def test_entries_of_lists_are_pruned_one_by_one() -> None:
    raw = {"members": [{"index": 0, "epoch": 1, "a": 1}, {"index": 1, "epoch": 1, "b": 1, "c": 2}]}
    status = TrainingJobStatus.model_validate(pruned(TrainingJobStatus, raw))
    assert [member.index for member in status.members] == [0, 1]
