"""The CRD in the chart: its rules where the cluster knows them, kept on uninstall."""

import pytest

from support.manifests import Render, of_kind, only, walk

pytestmark = pytest.mark.chart

RULES = "x-kubernetes-validations"


@pytest.mark.parametrize(
    ("version", "has_rules"), [("1.20.2", False), ("1.24.17", False), ("1.25.0", True), ("1.35.0", True)]
)
def test_rules_only_where_the_api_server_knows_them(render: Render, version: str, has_rules: bool) -> None:
    crd = only(render("--kube-version", version), "CustomResourceDefinition")

    assert (RULES in {key for key, _ in walk(crd)}) is has_rules


def test_both_versions_differ_in_the_rules_alone(render: Render) -> None:
    old, new = (only(render("--kube-version", version), "CustomResourceDefinition") for version in ("1.20.2", "1.35.0"))

    def without_rules(value: object) -> object:
        if isinstance(value, dict):
            return {key: without_rules(inner) for key, inner in value.items() if key != RULES}
        return [without_rules(inner) for inner in value] if isinstance(value, list) else value

    assert without_rules(new) == old


def test_kept_on_uninstall_unless_told_otherwise(render: Render) -> None:
    kept = only(render(), "CustomResourceDefinition")["metadata"]
    removed = only(render("--set", "crds.keep=false"), "CustomResourceDefinition")["metadata"]

    assert kept["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in removed


def test_left_out_when_disabled(render: Render) -> None:
    assert not of_kind(render("--set", "crds.enabled=false"), "CustomResourceDefinition")
