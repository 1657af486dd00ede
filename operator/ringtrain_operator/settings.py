"""The operator's settings, from its environment."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar

from ringtrain_operator.api.validation import InvalidSpec
from ringtrain_operator.leadership import LeaseName
from ringtrain_operator.plan.defaults import JobDefaults

PREFIX = "RINGTRAIN_"

Number = TypeVar("Number", int, float)


class BadSettings(ValueError):
    """An environment variable is wrong; the message names it."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    watch_namespaces: tuple[str, ...] = ()
    """RINGTRAIN_WATCH_NAMESPACES: separated by commas; none: all namespaces."""
    watch_nodes: bool = True
    """RINGTRAIN_WATCH_NODES: whether nodes may be read; else a node that is lost is noticed by its pods' eviction."""
    agents_from: tuple[Mapping[str, Any], ...] | None = None
    """RINGTRAIN_AGENTS_FROM: NetworkPolicyPeers as a JSON list. Each job gets a NetworkPolicy that lets only them ask
    the agents, and only the job's own pods reach the rest; empty: no NetworkPolicy is made."""
    job_defaults: JobDefaults = field(default_factory=JobDefaults)
    """RINGTRAIN_JOB_DEFAULTS: jobDefaults of the chart, as JSON."""
    health_port: int = 8080
    """RINGTRAIN_HEALTH_PORT: /healthz and /readyz."""
    metrics_port: int = 9090
    """RINGTRAIN_METRICS_PORT: /metrics."""
    page_port: int = 8081
    """RINGTRAIN_PAGE_PORT: a page about the jobs, on loopback only: `kubectl port-forward` reaches it."""
    log_format: Literal["plain", "json"] = "plain"
    """RINGTRAIN_LOG_FORMAT."""
    resync_seconds: float = 30.0
    """RINGTRAIN_RESYNC_SECONDS: every job gets a pass at least this often."""
    concurrency: int = 16
    """RINGTRAIN_CONCURRENCY: jobs that are worked on at once."""
    requests_per_second: float = 300.0
    """RINGTRAIN_REQUESTS_PER_SECOND: to the API server, on average."""
    burst: int = 600
    """RINGTRAIN_BURST: requests to the API server at once."""
    lease: LeaseName | None = None
    """RINGTRAIN_LEASE, as NAMESPACE/NAME: of several operators with the same one, one leads; none: always this one."""
    lease_seconds: float = 15.0
    """RINGTRAIN_LEASE_SECONDS: a leader that is gone is followed after so long."""

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Raises BadSettings."""
        log_format = env.get(PREFIX + "LOG_FORMAT") or cls.log_format
        if log_format not in ("plain", "json"):
            raise BadSettings(f"{PREFIX}LOG_FORMAT is {log_format!r}: expected plain or json")
        names = env.get(PREFIX + "WATCH_NAMESPACES", "").split(",")
        return cls(
            watch_namespaces=tuple(dict.fromkeys(name.strip() for name in names if name.strip())),
            agents_from=_peers(env.get(PREFIX + "AGENTS_FROM", "")),
            job_defaults=_job_defaults(env.get(PREFIX + "JOB_DEFAULTS", "")),
            watch_nodes=_switch(env, "WATCH_NODES", cls.watch_nodes),
            health_port=_number(env, "HEALTH_PORT", cls.health_port, int, 1, 65535),
            metrics_port=_number(env, "METRICS_PORT", cls.metrics_port, int, 1, 65535),
            page_port=_number(env, "PAGE_PORT", cls.page_port, int, 1, 65535),
            log_format="json" if log_format == "json" else "plain",
            resync_seconds=_number(env, "RESYNC_SECONDS", cls.resync_seconds, float, 1, 3600),
            concurrency=_number(env, "CONCURRENCY", cls.concurrency, int, 1, 1024),
            requests_per_second=_number(env, "REQUESTS_PER_SECOND", cls.requests_per_second, float, 1, 100000),
            burst=_number(env, "BURST", cls.burst, int, 1, 100000),
            lease=_lease(env.get(PREFIX + "LEASE", "")),
            lease_seconds=_number(env, "LEASE_SECONDS", cls.lease_seconds, float, 3, 600),
        )


def _peers(text: str) -> tuple[Mapping[str, Any], ...] | None:
    if not text:
        return None
    try:
        peers = json.loads(text)
    except ValueError:
        peers = None
    if not isinstance(peers, list) or not all(isinstance(peer, dict) and peer for peer in peers):
        raise BadSettings(f"{PREFIX}AGENTS_FROM is {text!r}: expected a JSON list of NetworkPolicyPeers")
    return tuple(peers)


def _job_defaults(text: str) -> JobDefaults:
    try:
        return JobDefaults.checked(json.loads(text or "{}"))
    except InvalidSpec as error:
        raise BadSettings(f"{PREFIX}JOB_DEFAULTS: {error}") from error
    except (ValueError, RecursionError):
        raise BadSettings(f"{PREFIX}JOB_DEFAULTS is {text!r:.200}: expected jobDefaults of the chart as JSON") from None


def _lease(text: str) -> LeaseName | None:
    if not text:
        return None
    parts = text.split("/")
    if len(parts) != 2 or not all(parts):
        raise BadSettings(f"{PREFIX}LEASE is {text!r}: expected NAMESPACE/NAME")
    return LeaseName(*parts)


def _switch(env: Mapping[str, str], name: str, default: bool) -> bool:
    text = env.get(PREFIX + name) or str(default).lower()
    if text not in ("true", "false"):
        raise BadSettings(f"{PREFIX}{name} is {text!r}: expected true or false")
    return text == "true"


def _number(
    env: Mapping[str, str], name: str, default: Number, kind: type[Number], least: float, most: float
) -> Number:
    text = env.get(PREFIX + name)
    if not text:
        return default
    try:
        value = kind(text)
    except ValueError:
        value = kind(-1)
    if not least <= value <= most:
        raise BadSettings(f"{PREFIX}{name} is {text!r}: expected a number from {least} to {most}")
    return value
