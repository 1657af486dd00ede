"""The operator's settings, from its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, TypeVar

PREFIX = "RINGTRAIN_"

Number = TypeVar("Number", int, float)


class BadSettings(ValueError):
    """An environment variable is wrong; the message names it."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    watch_namespaces: tuple[str, ...] = ()
    """RINGTRAIN_WATCH_NAMESPACES: separated by commas; none: all namespaces."""
    health_port: int = 8080
    """RINGTRAIN_HEALTH_PORT: /healthz and /readyz."""
    metrics_port: int = 9090
    """RINGTRAIN_METRICS_PORT: /metrics."""
    log_format: Literal["plain", "json"] = "plain"
    """RINGTRAIN_LOG_FORMAT."""
    resync_seconds: float = 30.0
    """RINGTRAIN_RESYNC_SECONDS: every job gets a pass at least this often."""
    concurrency: int = 16
    """RINGTRAIN_CONCURRENCY: jobs that are worked on at once."""

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Raises BadSettings."""
        log_format = env.get(PREFIX + "LOG_FORMAT") or cls.log_format
        if log_format not in ("plain", "json"):
            raise BadSettings(f"{PREFIX}LOG_FORMAT is {log_format!r}: expected plain or json")
        names = env.get(PREFIX + "WATCH_NAMESPACES", "").split(",")
        return cls(
            watch_namespaces=tuple(dict.fromkeys(name.strip() for name in names if name.strip())),
            health_port=_number(env, "HEALTH_PORT", cls.health_port, int, 1, 65535),
            metrics_port=_number(env, "METRICS_PORT", cls.metrics_port, int, 1, 65535),
            log_format="json" if log_format == "json" else "plain",
            resync_seconds=_number(env, "RESYNC_SECONDS", cls.resync_seconds, float, 1, 3600),
            concurrency=_number(env, "CONCURRENCY", cls.concurrency, int, 1, 1024),
        )


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
