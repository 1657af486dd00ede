"""The Grafana dashboards: as their code makes them, of metrics that exist, in PromQL that Prometheus reads."""

import json
from pathlib import Path

import pytest
import yaml
from grafana_foundation_sdk.models.dashboard import Dashboard

import dashboards
from support import promql
from support.manifests import Render, of_kind
from support.tools import CHART, ROOT, command

pytestmark = pytest.mark.chart

BOARDS = promql.dashboards()


def test_files_are_what_the_code_makes() -> None:
    files = {file.name: file.read_text() for file in (CHART / "dashboards").iterdir()}
    assert files == dashboards.texts(), "run: PYTHONPATH=charts python -m dashboards"
    assert ROOT / dashboards.FOLDER == CHART / "dashboards"


@pytest.mark.parametrize("name", BOARDS)
def test_the_schema_knows_all_of_it(name: str) -> None:
    """The SDK reads by the schema of Grafana, and drops what that does not know."""
    again = json.loads(dashboards.encoded(Dashboard.from_json(BOARDS[name])))
    assert again == BOARDS[name]


@pytest.mark.parametrize("name", BOARDS)
def test_every_metric_exists(name: str) -> None:
    for expression in promql.expressions(BOARDS[name]):
        assert promql.used(expression), expression
        assert promql.used(expression) <= promql.known(), expression


def test_prometheus_reads_every_expression(tmp_path: Path) -> None:
    """As recording rules: promtool reads their expressions as Prometheus does."""
    variables = {"namespace": "n", "training_job": "j"}
    found = [promql.filled(each, **variables) for board in BOARDS.values() for each in promql.expressions(board)]
    assert not [each for each in found if "$" in each]
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(found)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in command(promql.promtool(), "check", "rules", file)


@pytest.mark.parametrize("name", BOARDS)
def test_panels_are_told_apart_and_explained(name: str) -> None:
    board = BOARDS[name]
    assert board["uid"] == f"ringtrain-{name}"
    assert board["schemaVersion"] == 42
    assert not board["editable"]
    places = [tuple(panel["gridPos"].get(side, 0) for side in "xy") for panel in board["panels"]]
    assert len(set(places)) == len(places)
    for panel in promql.panels(board):
        assert panel["title"], panel
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


def test_the_chart_ships_each_for_the_sidecar(render: Render) -> None:
    values = "metrics.dashboards.enabled=true,metrics.dashboards.annotations.grafana_folder=ML"
    maps = of_kind(render("--set", values), "ConfigMap")
    assert {key: json.loads(text) for each in maps for key, text in each["data"].items()} == {
        f"ringtrain-{name}.json": board for name, board in BOARDS.items()
    }
    for each in maps:
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"] == {"grafana_folder": "ML"}


def test_none_are_shipped_unasked(render: Render) -> None:
    assert not of_kind(render(), "ConfigMap")
