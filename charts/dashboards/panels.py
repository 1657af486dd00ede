"""What all dashboards are made of: every panel has a title, a description, a unit, and queries with legends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    DataSourceRef,
    GraphThresholdsStyleMode,
    StackingMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

TAG = "ringtrain"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHT = 8
SMALL = 4
"""Height of a number."""


@dataclass(frozen=True, slots=True)
class Query:
    """`legend` may name labels, as in {{rank}}."""

    expression: str
    legend: str


def begin(uid: str, title: str, description: str) -> dashboard.Dashboard:
    """An empty dashboard with the variable `datasource`, and links to the others."""
    others = dashboard.DashboardLink("Ringtrain").type(DashboardLinkType.DASHBOARDS).tags([TAG]).keep_time(True)
    return (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .readonly()
        .time("now-1h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(others.as_dropdown(False).include_vars(True).icon("external link"))
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )


def choice(name: str, label: str, query: str, *, several: bool = False) -> dashboard.QueryVariable:
    """A variable whose values Prometheus knows; `several` of them, or all, can be chosen."""
    variable = (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return variable.multi(True).include_all(True).all_value(".*") if several else variable


def series(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int = 8,
    line: float | None = None,
    stacked: bool = False,
) -> timeseries.Panel:
    """Curves over time; `line` is a limit that is drawn too."""
    panel = _with(timeseries.Panel(), title, description, width, HEIGHT, queries).unit(unit).min(0)
    if line is not None:
        panel.thresholds(limit(line)).thresholds_style(
            common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        )
    if stacked:
        panel.fill_opacity(40).stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    return panel


def number(
    title: str, description: str, unit: str, query: Query, *, width: int = 4, line: float | None = None
) -> stat.Panel:
    """The latest value, and its curve behind it; from `line` on it is red."""
    panel = _with(stat.Panel(), title, description, width, SMALL, [query]).unit(unit)
    if line is None:
        return panel.color_mode(BigValueColorMode.NONE)
    return panel.thresholds(limit(line)).color_mode(BigValueColorMode.VALUE)


def states(title: str, description: str, query: Query, *, width: int = 24) -> statetimeline.Panel:
    """When each series of the query was there."""
    return (
        _with(statetimeline.Panel(), title, description, width, HEIGHT, [query])
        .unit("none")
        .legend(common.VizLegendOptions().show_legend(False))
    )


def overview(
    title: str, description: str, columns: Sequence[tuple[str, str, str]], links: Sequence[tuple[str, str]]
) -> table.Panel:
    """A row for each set of labels; `columns` are (name, unit, expression), `links` (label, URL)."""
    panel = table.Panel().title(title).description(description).datasource(SOURCE).span(24).height(HEIGHT).unit("none")
    renamed: dict[str, str] = {}
    for place, (name, unit, expression) in enumerate(columns):
        reference = chr(ord("A") + place)
        panel.with_target(
            prometheus.Dataquery()
            .expr(expression)
            .legend_format(name)
            .ref_id(reference)
            .instant()
            .format(PromQueryFormat.TABLE)
            .datasource(SOURCE)
        )
        panel.override_by_name(name, [DynamicConfigValue("unit", unit)])
        renamed[f"Value #{reference}"] = name
    for label, url in links:
        link = {"title": "Open", "url": url}
        panel.override_by_name(label, [DynamicConfigValue("links", [link])])
    return panel.with_transformation(DataTransformerConfig(id_val="merge", options={})).with_transformation(
        DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True}, "renameByName": renamed})
    )


def marks(name: str, color: str, expression: str, text: str) -> dashboard.AnnotationQuery:
    """Vertical lines where the expression has a value; `text` may name labels, as in {{reason}}."""
    return (
        dashboard.AnnotationQuery()
        .name(name)
        .datasource(SOURCE)
        .enable(True)
        .icon_color(color)
        .expr(expression)
        .step("15s")
        .title_format(text)
    )


def limit(value: float) -> dashboard.ThresholdsConfig:
    """Green below it, red from it on."""
    steps = [Threshold(value=None, color="green"), Threshold(value=value, color="red")]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


class _Panel(Protocol):
    """What the SDK's builders of panels have in common."""

    def title(self, title: str) -> Self: ...
    def description(self, description: str) -> Self: ...
    def datasource(self, datasource: DataSourceRef) -> Self: ...
    def span(self, w: int) -> Self: ...
    def height(self, h: int) -> Self: ...
    def with_target(self, target: Builder[Dataquery]) -> Self: ...


AnyPanel = TypeVar("AnyPanel", bound=_Panel)


def _with(panel: AnyPanel, title: str, description: str, width: int, height: int, queries: Sequence[Query]) -> AnyPanel:
    panel.title(title).description(description).datasource(SOURCE).span(width).height(height)
    for place, query in enumerate(queries):
        panel.with_target(
            prometheus.Dataquery()
            .expr(query.expression)
            .legend_format(query.legend)
            .ref_id(chr(ord("A") + place))
            .range()
            .datasource(SOURCE)
        )
    return panel
