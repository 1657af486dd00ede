"""Recording and alert rules: read, tried and shipped; each alert has a page that says what to do."""

import shutil
from pathlib import Path

import pytest
import yaml

from support import promql
from support.manifests import Render, only
from support.tools import ROOT, command

pytestmark = pytest.mark.chart

TESTS = Path(__file__).with_name("rules_test.yaml")
RUNBOOKS = ROOT / "docs" / "runbooks"
ALERTS = {rule["alert"]: rule for rule in promql.rules() if "alert" in rule}
SECTIONS = ("## What it means", "## Find out", "## Mend")


def test_promtool_finds_no_fault() -> None:
    assert f"{len(promql.rules())} rules found" in command(promql.promtool(), "check", "rules", promql.RULES)


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    for file in (TESTS, promql.RULES):
        shutil.copy(file, tmp_path)
    assert "SUCCESS" in command(promql.promtool(), "test", "rules", tmp_path / TESTS.name)


def test_every_alert_is_tried_in_both_ways() -> None:
    tried = [each for test in yaml.safe_load(TESTS.read_text())["tests"] for each in test.get("alert_rule_test", ())]
    for alert in ALERTS:
        fires = [bool(each.get("exp_alerts")) for each in tried if each["alertname"] == alert]
        assert set(fires) == {True, False}, alert


def test_every_metric_exists() -> None:
    for rule in promql.rules():
        assert promql.used(rule["expr"]), rule
        assert promql.used(rule["expr"]) <= promql.known(), rule


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_a_runbook(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"]["runbook_url"] == f"{alert}.md"
    page = (RUNBOOKS / f"{alert}.md").read_text()
    assert page.startswith(f"# {alert}\n")
    assert all(section in page for section in SECTIONS)


def test_no_runbook_is_of_an_alert_that_is_gone() -> None:
    assert {page.stem for page in RUNBOOKS.glob("Ringtrain*.md")} == ALERTS.keys()


def test_the_chart_ships_them_with_the_runbooks_address(render: Render) -> None:
    values = "metrics.prometheusRule.enabled=true,metrics.prometheusRule.labels.release=prometheus"
    rule = only(
        render("--set", values, "--set", "metrics.prometheusRule.runbookUrl=https://docs.example/runbooks/"),
        "PrometheusRule",
    )
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    shipped = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    assert [each["expr"] for each in shipped] == [each["expr"] for each in promql.rules()]
    urls = {each["alert"]: each["annotations"]["runbook_url"] for each in shipped if "alert" in each}
    assert urls == {alert: f"https://docs.example/runbooks/{alert}.md" for alert in ALERTS}
