import asyncio
import os
import signal
from pathlib import Path

import pytest

from ringtrain.agent import coordinator_process
from ringtrain.agent.coordinator_process import CoordinatorProcess
from ringtrain.processes import Children, is_stopped

pytestmark = pytest.mark.distributed


def test_a_coordinator_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    pids.touch()
    script = f"echo $$ >> {pids}; exec sleep 1000"
    monkeypatch.setattr(coordinator_process, "_COMMAND", ("sh", "-c", script))
    now = 0.0

    async def started(number: int) -> list[int]:
        async with asyncio.timeout(60):
            while len(found := pids.read_text().split()) < number:
                await asyncio.sleep(0.01)
        return list(map(int, found))

    async def hang() -> list[int]:
        nonlocal now
        coordinator = CoordinatorProcess(Children(), lambda: now)
        running = asyncio.get_running_loop().create_task(coordinator.run())
        (first,) = await started(1)
        now = 50
        coordinator.look(True)
        now = 100
        coordinator.look(False)
        assert Path(f"/proc/{first}").exists()
        now = 111
        coordinator.look(False)
        both = await started(2)
        # The next one has its own time, as long as it runs.
        coordinator.look(False)
        os.kill(both[1], signal.SIGSTOP)
        while not is_stopped(both[1]):
            await asyncio.sleep(0.01)
        coordinator.look(True)
        three = await started(3)
        running.cancel()
        await asyncio.wait([running])
        # Reaped, before there is no loop any more that could.
        async with asyncio.timeout(60):
            while Path(f"/proc/{three[2]}").exists():
                await asyncio.sleep(0.01)
        return three

    assert len(set(asyncio.run(hang()))) == 3
