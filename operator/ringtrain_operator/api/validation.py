"""From what a user wrote to a typed spec, or to everything that is wrong with it."""

from collections.abc import Mapping
from dataclasses import replace
from json import dumps
from typing import Any

from pydantic import ValidationError

from ringtrain_operator.api import plain_words
from ringtrain_operator.api.plain_json import NotPlain, plain_json
from ringtrain_operator.api.pod_template import template_problems
from ringtrain_operator.api.problem import Problem
from ringtrain_operator.api.rules import RULES, name_problems
from ringtrain_operator.api.spec import TrainingJobSpec

_ROOT = ("spec",)
_TEMPLATE = ("spec", "template", "spec")
_REQUIRED = {"image": "unknown"}
"""Stands in for required fields that are wrong, so that the others can be looked at."""
_MISSING_IMAGE = Problem((*_ROOT, "image"), "is required")
_NO_IMAGE = (
    "is required: name one here, or have an administrator name one for all jobs (jobDefaults of Ringtrain's chart)"
)


class InvalidSpec(ValueError):
    """The job cannot work. `errors` has one sentence for each problem, beginning with the field's path."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        self.errors = tuple(map(str, problems))
        super().__init__("; ".join(self.errors))


def parse(name: str, spec: Mapping[str, Any]) -> TrainingJobSpec:
    """The typed `spec` of the job `name`. Raises InvalidSpec with all that is wrong."""
    try:
        raw = plain_json(spec, _ROOT, _TEMPLATE)
    except NotPlain as error:
        raise InvalidSpec((*name_problems(name), error.problem)) from None
    if not isinstance(raw, dict):
        raise InvalidSpec((*name_problems(name), Problem(_ROOT, "must be a mapping of fields to values")))
    typed, wrong_fields = _typed(raw)
    faulty = {problem.location[1] for problem in wrong_fields}
    problems = [*name_problems(name), *wrong_fields]
    for rule in RULES:
        if not rule.reads & faulty:
            problems += rule.check(typed)
    template = raw.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        problems += template_problems(template["spec"], _TEMPLATE)
    if problems:
        raise InvalidSpec(tuple(problems))
    return typed


def _typed(raw: dict[str, Any]) -> tuple[TrainingJobSpec, tuple[Problem, ...]]:
    """The spec, with defaults in place of the fields that are wrong, and what is wrong with those."""
    try:
        return _validated(raw), ()
    except ValidationError as error:
        found = plain_words.problems(error, TrainingJobSpec, _ROOT)
        problems = tuple(replace(each, text=_NO_IMAGE) if each == _MISSING_IMAGE else each for each in found)
        faulty = {problem.location[1] for problem in problems}
        sound = {field: value for field, value in raw.items() if field not in faulty}
        return _validated(_REQUIRED | sound), problems


def _validated(raw: dict[str, Any]) -> TrainingJobSpec:
    """As strict as the CRD's schema: no text for numbers, and only the names that users write."""
    return TrainingJobSpec.model_validate_json(dumps(raw), strict=True, by_alias=True, by_name=False)
