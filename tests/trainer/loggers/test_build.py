"""Loggers by name."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.report import Progress
from ringtrain.loggers.build import add
from ringtrain.loggers.loggers import Loggers
from ringtrain.runtime.errors import BadConfiguration
from support.event_files import scalars

SETTINGS = CheckpointSettings(directory="/nowhere")


def unexpected(reason: str, message: str) -> None:
    raise AssertionError(f"{reason}: {message}")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("own_module")
    monkeypatch.setitem(sys.modules, "own_module", module)
    return module


def test_a_function_of_a_module(own: ModuleType) -> None:
    told: list[tuple[dict[str, float], int]] = []
    own.log = lambda values, round: told.append((values, round))  # type: ignore[attr-defined]
    loggers = Loggers(unexpected)
    add(loggers, "own_module:log", None)
    loggers.log(Progress(round=3, total_rounds=9, loss=1.5))
    loggers.close()
    assert told == [({"loss/train": 1.5}, 3)]


def test_tensorboard_writes_on_the_volume(tmp_path: Path) -> None:
    for first in (1, 2):  # The second goes back to round 2.
        loggers = Loggers(unexpected)
        add(loggers, "tensorboard", CheckpointSettings(directory=str(tmp_path)))
        for round in range(first, 4):
            loggers.log(Progress(round=round, total_rounds=9, loss=first / round))
        loggers.close()
    files = sorted((tmp_path / "tensorboard").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert [scalars(file) for file in files] == [
        {"loss/train": [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]},
        {"loss/train": [(2, 1.0), (3, pytest.approx(2 / 3))]},
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tensorboard", "set spec.checkpoint"),
        ("wandb", "neither tensorboard nor MODULE:FUNCTION"),
        ("no_such_module:log", "cannot be imported"),
        ("math:no_such_function", "cannot be imported"),
        ("math:pi", "is no function"),
    ],
)
def test_what_is_wrong_is_said(name: str, message: str) -> None:
    with pytest.raises(BadConfiguration, match=message):
        add(Loggers(unexpected), name, None)
