"""A real Chromium without a window, asked over its DevTools protocol."""

import asyncio
import base64
import itertools
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

START_SECONDS = 60.0
ANSWER_SECONDS = 30.0
# As root there is no sandbox, and no page here is a stranger's. The others keep it from asking hosts outside.
FLAGS = (
    "--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)  # fmt: skip


class Tab:
    """One page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Raises TimeoutError, and AssertionError when Chromium refuses."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                message = await self._socket.receive_json()
                if message.get("id") == number:
                    assert "error" not in message, message
                    result: dict[str, Any] = message["result"]
                    return result
                self.events.append(message)

    async def show(self, url: str, *, width: int, height: int = 900, dark: bool = False) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.ask(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.ask("Emulation.setDeviceMetricsOverride", **size)
        await self.ask("Emulation.setEmulatedMedia", features=[scheme])
        await self.ask("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """Of JavaScript. Raises AssertionError when it throws."""
        result = await self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression: str) -> None:
        """Until it is true. Raises TimeoutError."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while not await self.value(expression):
                await asyncio.sleep(0.05)

    async def screenshot(self, path: Path) -> None:
        """Of the whole page, as PNG."""
        shot = await self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def requested(self) -> set[str]:
        """URLs, as far as they were seen."""
        requests = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return {event["params"]["request"]["url"] for event in requests}

    def complaints(self) -> list[Any]:
        """Exceptions, and what the console calls an error."""
        methods = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in methods]


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Tab]:
    """Its one tab, until the block ends. Raises AssertionError when it does not start."""
    binary = shutil.which("chromium")
    assert binary is not None, "there is no chromium: testbed/install-deps installs it"
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [binary, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"], stdout=log, stderr=log
        )
    try:
        port = await _port(folder / "profile" / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tab = next(target for target in await answer.json() if target["type"] == "page")
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        process.terminate()
        try:
            process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    async with asyncio.timeout(START_SECONDS):
        while not file.exists() or not file.read_text():
            assert process.poll() is None, "chromium ended"
            await asyncio.sleep(0.1)
    return int(file.read_text().splitlines()[0])
