from typing import Any

import pytest

from ringtrain_operator.api.metadata import metadata_problems

GOOD: list[dict[str, Any]] = [
    {},
    {"namespace": "default"},
    {"namespace": "1-a"},
    {"namespace": "a" * 63},
    {"labels": None, "annotations": None},
    {"labels": {"team": "", "example.com/Team_1": "A.b-c"}, "annotations": {"example.com/note": "any text: {}"}},
    {"labels": {"a": "x" * 63}, "annotations": {"a": "x" * (2**18 - 1)}},
]


def errors(metadata: dict[str, Any]) -> list[str]:
    return list(map(str, metadata_problems(metadata)))


@pytest.mark.parametrize("metadata", GOOD)
def test_what_kubernetes_takes(metadata: dict[str, Any]) -> None:
    assert errors(metadata) == []


@pytest.mark.parametrize("namespace", ["", "-a", "a-", "A", "a.b", "a_b", "a/b", "a\n", "a" * 64, "ä", 5, None])
def test_a_namespace_is_a_dns_label(namespace: Any) -> None:
    (error,) = errors({"namespace": namespace})
    assert error.startswith("metadata.namespace: must be at most 63 lower-case letters, digits and dashes")


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"labels": ["a"]}, 'metadata.labels: must be a mapping of names to strings, not ["a"]'),
        ({"labels": {"a": 1}}, "metadata.labels.a: must be a string, not 1: write it in quotes"),
        ({"labels": {"a": True}}, "metadata.labels.a: must be a string, not true: write it in quotes"),
        ({"labels": {"a": None}}, "metadata.labels.a: must be a string, not null: write it in quotes"),
        ({"labels": {"a": "two words"}}, "metadata.labels.a: must be letters, digits, dashes, underscores and dots, "),
        ({"labels": {"a": "x" * 64}}, "metadata.labels.a: has 64 characters, at most 63 fit"),
        ({"labels": {"two words": "a"}}, "metadata.labels[two words]: is not a valid key: use [domain/]name"),
        ({"labels": {"": "a"}}, "metadata.labels[]: is not a valid key"),
        ({"annotations": "a"}, 'metadata.annotations: must be a mapping of names to strings, not "a"'),
        ({"annotations": {"a": 1.5}}, "metadata.annotations.a: must be a string, not 1.5: write it in quotes"),
        ({"annotations": {"a/b/c": "a"}}, "metadata.annotations[a/b/c]: is not a valid key"),
        ({"annotations": {"a": "x" * 2**18}}, "metadata.annotations: have 262145 bytes, at most 262144 fit"),
    ],
)
def test_what_it_refuses(metadata: dict[str, Any], error: str) -> None:
    (found,) = errors(metadata)
    assert found.startswith(error)


def test_everything_is_said_at_once() -> None:
    assert len(errors({"namespace": "A", "labels": {"a b": 1, "c": "d e"}, "annotations": {"": 2}})) == 6
