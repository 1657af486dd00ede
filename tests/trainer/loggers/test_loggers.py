"""Loggers never hold training up, and what goes wrong with one is told once."""

import threading
from collections.abc import Mapping

import pytest

from ringtrain.contract.report import CommunicationTotals, LinkTotals, Progress
from ringtrain.loggers import loggers as module
from ringtrain.loggers.loggers import Loggers
from ringtrain.loggers.values import values_of

TOLD = "LoggerDropped"


class Told:
    def __init__(self) -> None:
        self.reports: list[tuple[str, str]] = []
        self.rounds: list[tuple[int, Mapping[str, float]]] = []
        self.threads: set[str] = set()

    def report(self, reason: str, message: str) -> None:
        self.reports.append((reason, message))

    def log(self, values: Mapping[str, float], round: int) -> None:
        self.rounds.append((round, values))
        self.threads.add(threading.current_thread().name)


def progress(round: int) -> Progress:
    return Progress(round=round, total_rounds=9, loss=2.0 / round)


def test_each_round_in_order_and_from_another_thread() -> None:
    told = Told()
    loggers = Loggers(told.report)
    loggers.add("mine", told.log, lambda: told.rounds.append((0, {})))
    for round in (1, 2):
        loggers.log(progress(round))
    loggers.close()
    assert told.rounds == [(1, {"loss/train": 2.0}), (2, {"loss/train": 1.0}), (0, {})]
    assert told.threads == {"ringtrain-logger-mine"}
    assert told.reports == []


def test_one_that_fails_is_dropped_and_others_go_on() -> None:
    told = Told()

    def fail(_values: Mapping[str, float], _round: int) -> None:
        raise OSError("no network")

    loggers = Loggers(told.report)
    loggers.add("broken", fail)
    loggers.add("mine", told.log)
    for round in (1, 2, 3):
        loggers.log(progress(round))
    loggers.close()
    assert [round for round, _ in told.rounds] == [1, 2, 3]
    ((reason, message),) = told.reports
    assert reason == TOLD
    assert "logger broken failed: OSError: no network" in message


def test_one_that_hangs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUEUE", 3)
    told, released = Told(), threading.Event()
    loggers = Loggers(told.report, close_seconds=0.01)
    loggers.add("stuck", lambda _values, _round: bool(released.wait(60)))
    for round in range(1, 9):
        loggers.log(progress(round))
    loggers.close()
    assert [reason for reason, _ in told.reports] == [TOLD]
    assert "rounds behind" in told.reports[0][1]
    released.set()


def test_values_are_what_is_known() -> None:
    inter = LinkTotals(raw_bytes=80, sent_bytes=10, sampled_square=4, lost_square=1)
    totals = CommunicationTotals(
        codec="zfp-4",
        rounds=1,
        round_seconds=1,
        communication_seconds=1,
        exposed_seconds=0,
        intra=LinkTotals(),
        inter=inter,
    )
    assert values_of(Progress(round=1, total_rounds=2)) == {}
    assert values_of(Progress(round=1, total_rounds=2, evaluation_loss=3, communication=totals)) == {
        "loss/evaluation": 3,
        "communication/compression_ratio": 8,
        "communication/compression_error": 0.5,
    }
