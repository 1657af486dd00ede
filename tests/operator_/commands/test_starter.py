import re
from typing import Any

import yaml

from ringtrain_operator.api.schema import structural_schema
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.commands.starter import starter

SPEC: dict[str, Any] = {
    "image": "trainer:1",
    "replicas": 2,
    "trainer": {"rounds": 10, "data": {"paths": ["*.txt"]}},
    "checkpoint": {"volume": {"claimTemplate": {"storage": "1Gi"}}},
}
COMMENTED_FIELD = re.compile(r"^( *)#(?=\S|  )", re.MULTILINE)


def test_only_what_is_given_is_set() -> None:
    document = yaml.safe_load(starter("gpt", SPEC))
    assert document == {
        "apiVersion": "ringtrain.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "gpt"},
        "spec": SPEC,
    }


def test_every_field_is_there_with_its_default() -> None:
    def fields(node: dict[str, Any], given: Any) -> None:
        assert set(given) == set(node["properties"])
        for name, field in node["properties"].items():
            if "properties" in field:
                fields(field, given[name])
            elif "default" in field and name not in ("replicas",):
                assert given[name] == field["default"], name

    text = starter("gpt", SPEC).partition("apiVersion:")
    without = COMMENTED_FIELD.sub(r"\1", text[1] + text[2])
    fields(structural_schema(TrainingJobSpec, defaults=True), yaml.safe_load(without)["spec"])


def test_every_field_is_described() -> None:
    lines = starter("gpt", {"image": "i"}).splitlines()
    start = lines.index("  image: i")
    assert lines[start - 1] == "  # Container image of the replicas; it has ringtrain's trainer installed."
    assert "  #device: cuda  # cuda | cpu" in lines
    assert "  #checkpoint:" in lines


def test_a_name_that_looks_like_a_number() -> None:
    assert yaml.safe_load(starter("1", {"image": "i"}))["metadata"]["name"] == "1"
