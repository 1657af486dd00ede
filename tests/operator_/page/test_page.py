"""The page in a real Chromium: what it shows, at two widths, light and dark."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.page.board import Board
from ringtrain_operator.page.routes import LOOPBACK, page_routes
from ringtrain_operator.plan.observed import JobKey
from ringtrain_operator.server import serve
from support.chromium import Tab, chromium

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="testbed/install-deps installs chromium")

START = datetime(2026, 1, 1, tzinfo=UTC)
SHOTS = os.environ.get("RINGTRAIN_TEST_SCREENSHOTS")
"""A folder where the page's pictures are kept, for people."""
NASTY = "<img src=x onerror=document.title='broken-in'><script>document.title='broken-in'</script>"
TRAINED: dict[str, Any] = {
    "phase": "Running",
    "replicas": 4,
    "ready": 4,
    "generation": "2.1",
    "restarts": 3,
    "countedRestarts": 2,
    "totalRounds": 300,
    "communication": {"codec": "zfp-4", "share": "8.4%", "ratio": "7.9"},
    "lastCheckpoint": {"round": 140, "time": "2026-01-01T00:04:00Z"},
    "startTime": "2026-01-01T00:00:00Z",
    "failures": [
        {
            "time": "2026-01-01T00:01:00Z",
            "replica": 1,
            "rank": 1,
            "pod": "gpt-text-1-0",
            "reason": "Hang",
            "message": NASTY,
            "inPlace": True,
        },
        {"time": "2026-01-01T00:02:00Z", "replica": 2, "pod": "gpt-text-2-0", "reason": "NodeLost", "counted": False},
    ],
    "warnings": [{"time": "2026-01-01T00:03:00Z", "reason": "CheckpointDamaged", "message": "round 120 is damaged"}],
}
GPT, OTHER = JobKey("default", "gpt-text"), JobKey("team-a", "a-job-with-a-name-as-long-as-any-name-may-ever-become-x")


def busy() -> Board:
    """Two jobs, one of which went back to a checkpoint."""
    board = Board("cluster", lambda: START + timedelta(minutes=5))
    for second, round in enumerate([*range(1, 90), *range(60, 150)]):
        fields = {"round": round, "loss": str(2 + 3 / round), "progress": f"{round}/300"}
        status = TrainingJobStatus.model_validate(TRAINED | fields)
        board.seen(GPT, status, START + timedelta(seconds=second))
    message = "pod waits for a node: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
    pending = TrainingJobStatus.model_validate({"phase": "Pending", "replicas": 8, "message": message})
    board.seen(OTHER, pending, START)
    return board


def visit(board: Board, folder: Path, look: Callable[[Tab, str], Awaitable[None]]) -> None:
    """Nothing but the page itself and its data may be asked for, and nothing may go wrong."""

    async def run() -> None:
        async with serve(0, page_routes(board), LOOPBACK) as port, chromium(folder) as tab:
            url = f"http://{LOOPBACK}:{port}/"
            await look(tab, url)
            assert tab.requested() - {"data:,"} == {url, f"{url}jobs.json"}
            assert tab.complaints() == []

    asyncio.run(run())


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_job_in_full(tmp_path: Path, width: int, dark: bool) -> None:
    async def look(tab: Tab, url: str) -> None:
        await tab.show(url, width=width, dark=dark)
        await tab.until("document.querySelectorAll('svg').length === 3")
        text = await tab.value("document.body.innerText")
        for words in (
            "default/gpt-text",
            "149 of 300",
            "8.4% of a round",
            "round 140, 60s ago",
            "zfp-4, 7.9 times fewer",
        ):
            assert words in text
        # Newest first, and as text.
        assert text.index("NodeLost") < text.index("Hang")
        assert NASTY in text
        assert await tab.value("document.title") == "Running gpt-text - Ringtrain"
        # Nothing makes the page wider than the window.
        assert await tab.value("document.documentElement.scrollWidth") <= width
        paper = await tab.value("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(18, 22, 28)" if dark else "rgb(246, 247, 249)")
        if SHOTS:
            await tab.screenshot(Path(SHOTS) / f"page-{width}-{'dark' if dark else 'light'}.png")

    visit(busy(), tmp_path, look)


def test_another_job_is_chosen_and_news_are_shown(tmp_path: Path) -> None:
    board = busy()

    async def look(tab: Tab, url: str) -> None:
        await tab.show(url, width=1280)
        await tab.until("document.querySelectorAll('tbody a').length === 2")
        await tab.value("document.querySelectorAll('tbody a')[1].click()")
        await tab.until("document.querySelector('h2').innerText.startsWith('team-a/')")
        assert "Insufficient nvidia.com/gpu" in await tab.value("document.body.innerText")
        assert await tab.value("[...document.querySelectorAll('.empty')].map(e => e.innerText).join()") == ",".join(
            ["not enough rounds yet"] * 3
        )
        board.seen(OTHER, TrainingJobStatus.model_validate({"phase": "Failed", "message": "no more"}), START)
        await tab.until("document.querySelector('.head .message').innerText === 'no more'")
        board.seen(OTHER, None, START)
        await tab.until("document.querySelector('main').innerText.includes('(any more)')")

    visit(board, tmp_path, look)


def test_the_value_under_the_pointer(tmp_path: Path) -> None:
    async def look(tab: Tab, url: str) -> None:
        await tab.show(url, width=1280, height=1400)
        await tab.until("document.querySelectorAll('svg').length === 3")
        box = await tab.value(
            "(b => [b.left, b.top, b.width, b.height])(document.querySelector('svg').getBoundingClientRect())"
        )
        left, top, wide, high = box
        await tab.ask("Input.dispatchMouseEvent", type="mouseMoved", x=left + 2, y=top + high / 2)
        await tab.until("document.querySelector('svg .now').textContent === 'round 1: 5.0000'")
        await tab.ask("Input.dispatchMouseEvent", type="mouseMoved", x=left + wide / 2, y=top - 30)
        await tab.until("document.querySelector('svg .now').textContent === '2.0201'")

    visit(busy(), tmp_path, look)


def test_no_jobs(tmp_path: Path) -> None:
    async def look(tab: Tab, url: str) -> None:
        await tab.show(url, width=390)
        await tab.until("document.querySelector('main')?.innerText === 'There are no TrainingJobs.'")

    visit(Board("cluster", lambda: START), tmp_path, look)


def test_an_operator_that_stands_by(tmp_path: Path) -> None:
    async def look(tab: Tab, url: str) -> None:
        await tab.show(url, width=390)
        await tab.until("document.querySelector('main')?.innerText === 'stands by'")

    visit(Board("cluster", lambda: START, lambda: "stands by"), tmp_path, look)


def test_a_server_that_is_gone(tmp_path: Path) -> None:
    async def run() -> None:
        async with chromium(tmp_path) as tab:
            async with serve(0, page_routes(busy()), LOOPBACK) as port:
                await tab.show(f"http://{LOOPBACK}:{port}/", width=1280)
                await tab.until("document.querySelectorAll('svg').length === 3")
            await tab.until("document.getElementById('state').innerText.startsWith('no answer')")
            assert "what you see is as of" in await tab.value("document.getElementById('state').innerText")
            assert await tab.value("document.querySelectorAll('svg').length") == 3

    asyncio.run(run())
