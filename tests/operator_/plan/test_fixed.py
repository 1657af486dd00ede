from typing import Any

import pytest

from operator_.plan.builders import SPEC, spec_with, status
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.api.validation import parse
from ringtrain_operator.plan.fixed import problems, started_with

TRAINER = SPEC["trainer"]
STARTED = status(0, 0, 0, started_with=started_with(parse("gpt", SPEC)))


def changes(**fields: Any) -> list[str]:
    return [str(problem) for problem in problems(STARTED, parse("gpt", spec_with(**fields)))]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"procsPerReplica": 1}, "spec.procsPerReplica: cannot change from 2 to 1"),
        ({"device": "cuda"}, 'spec.device: cannot change from "cpu" to "cuda"'),
        ({"trainer": {**TRAINER, "rounds": 90}}, "spec.trainer.rounds: cannot change from 60 to 90"),
        (
            {"trainer": {**TRAINER, "optimizer": {"learningRate": 0.01}}},
            "spec.trainer.optimizer.learningRate: cannot change from 0.001 to 0.01",
        ),
        ({"parallelism": {"pipeline": 2}}, "spec.parallelism.pipeline: cannot change from 1 to 2"),
        ({"parallelism": {"compile": True}}, "spec.parallelism.compile: cannot change from false to true"),
        ({"checkpoint": {**SPEC["checkpoint"], "every": 7}}, "spec.checkpoint.every: cannot change from 5 to 7"),
        (
            {"checkpoint": {"volume": {"claimName": "other"}}},
            'spec.checkpoint.volume.claimName: cannot change from "disk" to "other"',
        ),
        ({"faultTolerance": {"preflight": {}}}, "spec.faultTolerance.preflight: cannot change from"),
        ({"checkpoint": None}, "spec.checkpoint: cannot change from"),
        ({"trainer": None, "command": ["train"], "args": ["-v"]}, "spec.trainer: cannot change from"),
    ],
)
def test_what_pods_must_agree_on_is_fixed(fields: dict[str, Any], words: str) -> None:
    found = changes(**fields)
    assert any(text.startswith(words) for text in found), found
    assert all("while the job has pods: set it back to" in text for text in found)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"trainer": {**TRAINER, "seed": 0}},  # spelled out, and the same as before
        {"parallelism": {"pipeline": 1}},  # as is this
        {"replicas": 4},  # all pods start anew
        {"suspend": True},
        {"activeDeadlineSeconds": 9, "pendingDeadlineSeconds": 9, "ttlSecondsAfterFinished": 9},
        {"cleanPodPolicy": "All"},
        {"image": "trainer:2"},
        {"resources": {"requests": {"cpu": "1"}}},
        {"checkpoint": {**SPEC["checkpoint"], "keep": 9}},
        {"faultTolerance": {"maxRestarts": 99}},
        {"template": {"metadata": {"labels": {"team": "a"}}}},
    ],
)
def test_everything_else_may_change(fields: dict[str, Any]) -> None:
    assert changes(**fields) == []


def test_nothing_is_fixed_before_the_job_has_started() -> None:
    assert list(problems(TrainingJobStatus(), parse("gpt", spec_with(replicas=7, device="cuda")))) == []


def test_without_a_checkpoint_the_size_is_fixed_too() -> None:
    spec = {field: value for field, value in SPEC.items() if field != "checkpoint"}
    started = status(0, 0, 0, started_with=started_with(parse("gpt", spec)))
    assert list(problems(started, parse("gpt", spec))) == []
    (found,) = problems(started, parse("gpt", spec | {"replicas": 2}))
    assert str(found).startswith("spec.replicas: cannot change from 3 to 2 without spec.checkpoint")


@pytest.mark.parametrize("suspended", [False, True])
def test_without_pods_only_what_checkpoints_are_is_fixed(suspended: bool) -> None:
    """Or when they are to end: a user may suspend a job and change it in one step."""
    before = STARTED if suspended else TrainingJobStatus(started_with=STARTED.started_with)
    changed = spec_with(
        suspend=suspended,
        replicas=7,
        procsPerReplica=1,
        trainer={**TRAINER, "rounds": 90},
        checkpoint={**SPEC["checkpoint"], "every": 7},
        communication={"codec": "none"},
    )
    assert list(problems(before, parse("gpt", changed))) == []
    changed |= {"checkpoint": {"volume": {"claimName": "other"}}, "trainer": {**TRAINER, "model": {"size": "base"}}}
    found = [str(problem) for problem in problems(before, parse("gpt", changed))]
    assert [text.partition(":")[0] for text in found] == ["spec.checkpoint.volume.claimName", "spec.trainer.model.size"]
    assert all("once the job has started: set it back to" in text for text in found)
    without = {field: value for field, value in changed.items() if field != "checkpoint"}
    assert "spec.checkpoint" in [str(problem).partition(":")[0] for problem in problems(before, parse("gpt", without))]


def test_an_own_program_may_be_another_one_after_a_suspension() -> None:
    own = {"image": "i", "command": ["train"], "device": "cpu"}
    before = TrainingJobStatus(started_with=started_with(parse("gpt", own)))
    assert list(problems(before, parse("gpt", own | {"command": ["train", "--more"]}))) == []


def test_nothing_is_known_of_a_job_that_an_earlier_operator_started() -> None:
    assert list(problems(status(0, 0, 0), parse("gpt", spec_with(device="cuda")))) == []


def test_what_only_one_release_of_the_operator_knows_is_not_compared() -> None:
    earlier = status(0, 0, 0, started_with='{"device":"cpu","trainer":{"rounds":60,"forgotten":1},"gone":{}}')
    assert list(problems(earlier, parse("gpt", SPEC))) == []
