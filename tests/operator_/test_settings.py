import pytest

from ringtrain_operator.settings import BadSettings, Settings


def test_defaults() -> None:
    assert Settings.from_env({}) == Settings()
    assert Settings.from_env({"RINGTRAIN_WATCH_NAMESPACES": "", "RINGTRAIN_HEALTH_PORT": ""}) == Settings()


def test_all_settings() -> None:
    env = {
        "RINGTRAIN_WATCH_NAMESPACES": "a, b,,a",
        "RINGTRAIN_HEALTH_PORT": "81",
        "RINGTRAIN_METRICS_PORT": "82",
        "RINGTRAIN_LOG_FORMAT": "json",
        "RINGTRAIN_RESYNC_SECONDS": "2.5",
        "RINGTRAIN_CONCURRENCY": "3",
    }
    assert Settings.from_env(env) == Settings(
        watch_namespaces=("a", "b"),
        health_port=81,
        metrics_port=82,
        log_format="json",
        resync_seconds=2.5,
        concurrency=3,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEALTH_PORT", "x"),
        ("METRICS_PORT", "70000"),
        ("LOG_FORMAT", "xml"),
        ("RESYNC_SECONDS", "0"),
        ("RESYNC_SECONDS", "nan"),
        ("CONCURRENCY", "1.5"),
    ],
)
def test_a_wrong_one_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=f"RINGTRAIN_{name} is '{value}'"):
        Settings.from_env({f"RINGTRAIN_{name}": value})
