import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ringtrain_operator.local import processes

pytestmark = pytest.mark.distributed

SLEEP = "import time; time.sleep(120)"
# A child in its own session, stopped: neither a group signal nor SIGTERM would end it.
HIDDEN_CHILD = f"""
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True)
os.kill(child.pid, signal.SIGSTOP)
print(child.pid, flush=True)
time.sleep(120)
"""
RUNNER = """
import asyncio, os, sys
from pathlib import Path
from ringtrain_operator.local import processes
async def main():
    with open(os.devnull, "wb") as output:
        process = await processes.start([sys.executable, "-c", {code!r}], os.environ, Path("/"), output.fileno())
    print(process.pid, flush=True)
    await process.wait()
asyncio.run(main())
"""


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 30
    while alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_whatever_a_pod_started_ends_with_it(tmp_path: Path) -> None:
    async def scenario() -> int:
        log = tmp_path / "log"
        environment = {**os.environ, "POD": "one-of-a-kind"}
        with log.open("wb") as output:
            command = [sys.executable, "-c", HIDDEN_CHILD]
            process = await processes.start(command, environment, tmp_path, output.fileno())
        while not log.read_text().strip():
            assert process.returncode is None
            await asyncio.sleep(0.02)
        process.kill()
        assert processes.exit_code(await process.wait()) == 128 + signal.SIGKILL
        child = int(log.read_text())
        assert alive(child)
        assert await processes.kill_marked("POD", "one-of-a-kind")
        return child

    wait_until_gone(asyncio.run(scenario()))


def test_a_pod_dies_with_its_runner() -> None:
    code = RUNNER.format(code=SLEEP)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        pod = int(runner.stdout.readline())
        assert alive(pod)
        runner.kill()
    wait_until_gone(pod)


def test_exit_codes_are_a_containers() -> None:
    assert [processes.exit_code(code) for code in (0, 78, -9, -15)] == [0, 78, 137, 143]
