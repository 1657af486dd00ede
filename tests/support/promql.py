"""What a Prometheus would be asked by the chart, and the metrics that it could know."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ringtrain.agent.metrics import Metrics, Sample
from ringtrain.contract.report import AgentStatus
from ringtrain_operator.metrics import OperatorMetrics
from support.prometheus import binary
from support.tools import CHART

RULES = CHART / "rules.yaml"
_METRIC = re.compile(r"\b(?:ringtrain|process)_[a-z0-9_]+|\bringtrain:[a-z0-9_:]+")


def dashboards() -> dict[str, dict[str, Any]]:
    """By the name of the file that the chart ships."""
    return {file.stem: json.loads(file.read_text()) for file in sorted((CHART / "dashboards").glob("*.json"))}


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those that ask something: rows do not."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def queries(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(title, expression) of every query of every panel."""
    return ((panel["title"], target["expr"]) for panel in panels(board) for target in panel["targets"])


def expressions(board: dict[str, Any]) -> Iterator[str]:
    """Of panels and annotations."""
    yield from (expression for _, expression in queries(board))
    yield from (each["expr"] for each in board["annotations"].get("list", ()) if "expr" in each)


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def filled(expression: str, **values: str) -> str:
    """With values in place of Grafana's variables, its own included."""
    for name, value in {"__rate_interval": "1m", "__range": "1h", "__interval": "15s", **values}.items():
        expression = expression.replace(f"${name}", value)
    return expression


def used(expression: str) -> set[str]:
    """The metrics that it names."""
    return set(_METRIC.findall(expression))


def known() -> set[str]:
    """Every name that a scrape of the operator or of a trainer, or a recording rule, can bring."""
    nothing = Sample("n", AgentStatus(job="j", replica=0, epoch=0, live=True), 0, False)
    registries = (OperatorMetrics(lambda: 0).registry, Metrics(lambda: nothing).registry)
    families = [family for registry in registries for family in registry.collect()]
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
    names = {family.name + suffix for family in families for suffix in suffixes.get(family.type, ("",))}
    return names | {rule["record"] for rule in rules() if "record" in rule}


def promtool() -> Path:
    """It lies beside the binary that testbed/fetch-prometheus prints."""
    return binary().with_name("promtool")
