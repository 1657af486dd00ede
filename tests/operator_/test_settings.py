import pytest

from ringtrain_operator.leadership import LeaseName
from ringtrain_operator.plan.defaults import JobDefaults
from ringtrain_operator.settings import BadSettings, Settings


def test_defaults() -> None:
    assert Settings.from_env({}) == Settings()
    assert Settings.from_env({"RINGTRAIN_WATCH_NAMESPACES": "", "RINGTRAIN_HEALTH_PORT": ""}) == Settings()


def test_all_settings() -> None:
    env = {
        "RINGTRAIN_WATCH_NAMESPACES": "a, b,,a",
        "RINGTRAIN_WATCH_NODES": "false",
        "RINGTRAIN_AGENTS_FROM": '[{"podSelector": {}}]',
        "RINGTRAIN_JOB_DEFAULTS": '{"cluster": {"image": "a"}, "namespaces": {"team": {"image": "b"}}}',
        "RINGTRAIN_HEALTH_PORT": "81",
        "RINGTRAIN_METRICS_PORT": "82",
        "RINGTRAIN_PAGE_PORT": "83",
        "RINGTRAIN_LOG_FORMAT": "json",
        "RINGTRAIN_RESYNC_SECONDS": "2.5",
        "RINGTRAIN_CONCURRENCY": "3",
        "RINGTRAIN_REQUESTS_PER_SECOND": "50.5",
        "RINGTRAIN_BURST": "100",
        "RINGTRAIN_LEASE": "system/ringtrain",
        "RINGTRAIN_LEASE_SECONDS": "30",
    }
    assert Settings.from_env(env) == Settings(
        watch_namespaces=("a", "b"),
        watch_nodes=False,
        agents_from=({"podSelector": {}},),
        job_defaults=JobDefaults({"image": "a"}, {"team": {"image": "b"}}),
        health_port=81,
        metrics_port=82,
        page_port=83,
        log_format="json",
        resync_seconds=2.5,
        concurrency=3,
        requests_per_second=50.5,
        burst=100,
        lease=LeaseName("system", "ringtrain"),
        lease_seconds=30,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEALTH_PORT", "x"),
        ("METRICS_PORT", "70000"),
        ("PAGE_PORT", "0"),
        ("LOG_FORMAT", "xml"),
        ("RESYNC_SECONDS", "0"),
        ("RESYNC_SECONDS", "nan"),
        ("CONCURRENCY", "1.5"),
        ("WATCH_NODES", "no"),
        ("AGENTS_FROM", "{}"),
        ("AGENTS_FROM", "all"),
        ("JOB_DEFAULTS", "cluster"),
        ("REQUESTS_PER_SECOND", "0"),
        ("BURST", "0"),
        ("LEASE", "ringtrain"),
        ("LEASE", "/ringtrain"),
        ("LEASE_SECONDS", "1"),
    ],
)
def test_a_wrong_one_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=f"RINGTRAIN_{name} is '{value}'"):
        Settings.from_env({f"RINGTRAIN_{name}": value})


def test_a_wrong_default_of_jobs_is_named() -> None:
    given = '{"namespaces": {"team": {"image": "", "replicas": 2}}, "cluster": {"shmSize": "lots"}}'
    with pytest.raises(BadSettings, match=r"^RINGTRAIN_JOB_DEFAULTS: jobDefaults\.cluster\.shmSize: "):
        Settings.from_env({"RINGTRAIN_JOB_DEFAULTS": given})
