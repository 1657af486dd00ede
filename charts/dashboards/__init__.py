"""The chart's Grafana dashboards, as code: for Grafana 12 (schema version 42).

`PYTHONPATH=charts python -m dashboards`, in the repository's root, writes them to the chart.
"""

from collections.abc import Mapping
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.fleet import fleet
from dashboards.health import health
from dashboards.job import job

FOLDER = Path("charts/ringtrain/dashboards")


def texts() -> Mapping[str, str]:
    """JSON by file name."""
    return {f"{name}.json": encoded(make().build()) for name, make in _DASHBOARDS.items()}


def encoded(board: Dashboard) -> str:
    return JSONEncoder(sort_keys=True, indent=1).encode(board) + "\n"


_DASHBOARDS = {"fleet": fleet, "job": job, "operator": health}
