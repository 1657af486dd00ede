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
        ({"replicas": 4}, "spec.replicas: cannot change from 3 to 4"),
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
        ({"checkpoint": None}, "spec.checkpoint: cannot change from"),
        ({"trainer": None, "command": ["train"], "args": ["-v"]}, "spec.trainer: cannot change from"),
    ],
)
def test_what_pods_must_agree_on_is_fixed(fields: dict[str, Any], words: str) -> None:
    found = changes(**fields)
    assert any(text.startswith(words) for text in found), found
    assert all("once the job has started: set it back to" in text for text in found)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"trainer": {**TRAINER, "seed": 0}},  # spelled out, and the same as before
        {"parallelism": {"pipeline": 1}},  # as is this
        {"image": "trainer:2"},
        {"resources": {"requests": {"cpu": "1"}}},
        {"checkpoint": {**SPEC["checkpoint"], "keep": 9}},
        {"faultTolerance": {"maxRestarts": 99}},
        {"template": {"metadata": {"labels": {"team": "a"}}}},
    ],
)
def test_everything_else_may_change(fields: dict[str, Any]) -> None:
    assert changes(**fields) == []


def test_nothing_is_fixed_without_pods() -> None:
    before = TrainingJobStatus(started_with=STARTED.started_with)
    assert list(problems(before, parse("gpt", spec_with(replicas=7, device="cuda")))) == []


def test_only_the_size_is_known_of_a_job_that_an_earlier_operator_started() -> None:
    earlier = status(0, 0, 0)
    found = problems(earlier, parse("gpt", spec_with(replicas=2, device="cuda")))
    assert [problem.location for problem in found] == [("spec", "replicas")]


def test_what_only_one_release_of_the_operator_knows_is_not_compared() -> None:
    earlier = status(0, 0, 0, started_with='{"device":"cpu","trainer":{"rounds":60,"forgotten":1},"gone":{}}')
    assert list(problems(earlier, parse("gpt", SPEC))) == []
