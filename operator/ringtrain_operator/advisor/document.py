"""Advice for programs: the numbers of the tables, in seconds, bytes and shares of 1."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic.alias_generators import to_camel

from ringtrain_operator.advisor.advice import Advice, Choice, Row


def document(
    advice: Advice, own: Choice | None, grown: Sequence[tuple[int, Advice]], assumed: Sequence[str]
) -> dict[str, Any]:
    """JSON. `own` is the job's choice, `grown` the advice for other numbers of GPUs."""
    return {
        "assumed": list(assumed),
        "machines": advice.machines,
        "choices": [_row(row) | {"best": row is advice.best, "ofTheJob": row.choice == own} for row in advice.rows],
        "extrapolated": [
            {"gpus": gpus, "machines": found.machines, "best": _row(found.best), "notLossy": _row(found.plain)}
            for gpus, found in grown
        ],
        "pays": advice.pays,
        "reasons": list(advice.reasons),
        "advice": advice.sentence,
    }


def _row(row: Row) -> dict[str, Any]:
    found = row.prediction
    numbers = {to_camel(name): value for name, value in asdict(found).items()}
    derived = {"roundSeconds": found.round_seconds, "exposedShare": found.exposed_share}
    return {"codec": row.choice.format.name, "algorithm": row.choice.algorithm, **derived, **numbers}
