import re
from pathlib import Path

import pytest
import yaml

from operator_.api.admission import SCHEMA, defaulted, holds, job, nodes
from operator_.api.spec_table import GOOD, Good
from ringtrain_operator.api import crd
from ringtrain_operator.api.plain_words import PATTERNS
from ringtrain_operator.api.quantity import PATTERN
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.api.validation import parse

ROOT = Path(__file__).parents[3]
RULE = "x-kubernetes-validations"
CRD, CHART = crd.crd_yaml(), crd.chart_yaml()


@pytest.mark.parametrize(("path", "text"), [(crd.CRD_FILE, CRD), (crd.CHART_FILE, CHART)])
def test_committed_file_is_what_the_spec_says(path: Path, text: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == text, "run python -m ringtrain_operator.api.crd"


def test_both_files_are_written(tmp_path: Path) -> None:
    crd.write(tmp_path)
    assert (tmp_path / crd.CRD_FILE).read_text() == CRD
    assert (tmp_path / crd.CHART_FILE).read_text() == CHART


def test_small_enough_for_a_helm_release() -> None:
    assert len(CHART) < 100_000


def test_yaml_is_the_definition() -> None:
    assert yaml.safe_load(CRD) == crd.custom_resource_definition()


def test_every_field_is_described() -> None:
    fields = [
        (*path, name) for path, node in nodes() for name, field in node.get("properties", {}).items()
        if not field.get("description", "").endswith((".", ")"))
    ]  # fmt: skip
    assert fields == [("metadata",)]  # Kubernetes allows no description there.


def test_schema_is_structural() -> None:
    for path, node in nodes():
        integer_or_string = node.get("x-kubernetes-int-or-string", False)
        assert ("type" in node) != integer_or_string, path
        assert ("anyOf" in node) == integer_or_string, path
        assert not node.keys() & {"$ref", "oneOf", "allOf", "nullable", "title", "const"}, path
        assert not ("properties" in node and "additionalProperties" in node), path


def test_only_the_pod_template_keeps_unknown_fields() -> None:
    key = "x-kubernetes-preserve-unknown-fields"
    assert [path for path, node in nodes() if node.get(key)] == [("spec", "template", "spec")]


def test_status_has_no_defaults_and_all_phases() -> None:
    status = [node for path, node in nodes() if path[:1] == ("status",)]
    assert not any("default" in node for node in status)
    assert SCHEMA["properties"]["status"]["properties"]["phase"]["enum"] == [phase.value for phase in JobPhase]


def test_no_default_decides_what_the_user_must() -> None:
    fields = SCHEMA["properties"]["spec"]["properties"]
    assert not [name for name in ("image", "command", "args", "trainer", "checkpoint", "template", "resources")
                if "default" in fields[name]]  # fmt: skip


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.title)
def test_defaults_of_schema_and_operator_agree(case: Good) -> None:
    stored = defaulted(job(case.name, case.spec))
    assert parse(case.name, stored["spec"]) == parse(case.name, case.spec)


def test_default_objects_satisfy_their_rules_before_their_fields_have_defaults() -> None:
    # Kubernetes refuses the whole CRD otherwise.
    refused = [
        (path, rule["rule"])
        for path, node in nodes()
        for rule in node.get(RULE, ())
        if "default" in node and not holds(rule["rule"], node["default"])
    ]
    assert refused == []


def test_every_pattern_has_words() -> None:
    patterns = {node["pattern"] for path, node in nodes() if "pattern" in node}
    assert patterns - {PATTERN} == PATTERNS.keys()


def test_rules_have_messages_and_bounds() -> None:
    for _, node in nodes():
        for rule in node.get(RULE, ()):
            assert len(rule["message"]) < 250
            assert "\n" not in rule["rule"] + rule["message"]
        if RULE in node and "additionalProperties" in node:
            assert "maxProperties" in node


def test_columns_read_fields_that_exist() -> None:
    for column in crd.custom_resource_definition()["spec"]["versions"][0]["additionalPrinterColumns"]:
        path = column["jsonPath"].strip(".").split(".")
        if path[0] == "metadata":
            continue
        node = SCHEMA
        for name in path:
            node = node["properties"][name]
        assert node["type"] == column["type"]


def test_status_of_the_operator_fits_the_schema() -> None:
    assert set(TrainingJobStatus().model_dump(by_alias=True)) == set(SCHEMA["properties"]["status"]["properties"])


def test_chart_guards_every_block_of_rules() -> None:
    lines = CHART.splitlines()
    blocks = [number for number, line in enumerate(lines) if line.strip() == f"{RULE}:"]
    assert len(blocks) == sum(RULE in node for _, node in nodes())
    for number in blocks:
        assert lines[number - 1].strip() == '{{- if semverCompare ">=1.25-0" .Capabilities.KubeVersion.Version }}'


@pytest.mark.parametrize("with_rules", [True, False])
def test_chart_rendered_by_hand_is_the_definition(with_rules: bool) -> None:
    rendered, skipping = [], False
    for line in CHART.splitlines():
        if "semverCompare" in line:
            skipping = not with_rules
        elif "{{- end }}" in line:
            skipping = False
        elif not skipping and "{{-" not in line:
            rendered.append(line)
    text = "\n".join(rendered)
    assert "{{" not in text
    definition = yaml.safe_load(text)
    assert definition["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    expected = yaml.safe_load(CRD)
    assert (definition == expected) == with_rules
    assert bool(re.search(RULE, text)) == with_rules
