"""`ringtrain run --web`: a page about the job, while it trains."""

import json
import re
import signal
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from local.harness import Run, Runs

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]


def document(run: Run) -> dict[str, Any]:
    run.wait_for(r"page: http://127\.0\.0\.1:\d+/$")
    (url,) = re.findall(r"page: (\S+)$", run.output, re.MULTILINE)
    with urllib.request.urlopen(f"{url}jobs.json", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_the_page_shows_how_the_job_trains(runs: Runs) -> None:
    run = runs.start("--web", "--fault", "kill:rank=1,round=8", name="shown", rounds=100_000)
    deadline = time.monotonic() + 240
    while not (jobs := document(run)["jobs"]) or not jobs[0]["status"]["failures"] or len(jobs[0]["curve"]) < 3:
        assert time.monotonic() < deadline, run.output
        time.sleep(0.2)
    assert (jobs[0]["namespace"], jobs[0]["name"]) == ("default", "shown")
    assert jobs[0]["status"]["failures"][0]["reason"] == "Signal9"
    _, rounds, losses, _ = zip(*jobs[0]["curve"], strict=True)
    assert rounds[-1] > 0
    assert all(loss > 0 for loss in losses)
    run.process.send_signal(signal.SIGINT)
    assert run.finish().code == 130
    with pytest.raises(urllib.error.URLError):
        document(run)


def test_a_port_that_is_taken(runs: Runs) -> None:
    first = runs.start("--web", name="first", rounds=100_000)
    document(first)
    (port,) = re.findall(r"page: http://127\.0\.0\.1:(\d+)/$", first.output, re.MULTILINE)
    second = runs.start("--web-port", port, name="second").finish()
    assert second.code == 2
    assert f"error: port {port} cannot be used for the page" in second.output
    first.process.send_signal(signal.SIGINT)
    assert first.finish().code == 130
