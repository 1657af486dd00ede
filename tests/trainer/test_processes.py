"""Children die with their parent, in groups, and are reaped."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ringtrain.processes import Child, Children

PATIENCE = 60.0


def running(pid: int) -> bool:
    """False for zombies too."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def with_child(code: str, body: Callable[[Child], Coroutine[Any, Any, None]]) -> int:
    """The exit code of a Python child after `body`."""

    async def run() -> int:
        child = Children().start([sys.executable, "-c", code], os.environ, stdout=subprocess.DEVNULL)
        try:
            await body(child)
            return await asyncio.wait_for(child.wait(), PATIENCE)
        finally:
            child.kill()

    return asyncio.run(run())


async def nothing(child: Child) -> None:
    assert child.pid > 0


async def kill(child: Child) -> None:
    child.kill()


async def terminate(child: Child) -> None:
    child.terminate()


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        ("raise SystemExit(7)", nothing, 7),
        ("import time; time.sleep(600)", kill, 128 + signal.SIGKILL),
        ("import time; time.sleep(600)", terminate, 128 + signal.SIGTERM),
    ],
)
def test_exit_codes_are_those_of_a_shell(
    code: str, body: Callable[[Child], Coroutine[Any, Any, None]], expected: int
) -> None:
    assert with_child(code, body) == expected


def test_what_a_child_leaves_behind_in_its_group_dies_with_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    code = (
        "import subprocess, pathlib, sys\n"
        "orphan = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(path)!r}).write_text(str(orphan.pid))\n"
        "import os; os._exit(0)"
    )
    assert with_child(code, nothing) == 0
    until(lambda: not running(int(path.read_text())))


def test_a_command_that_cannot_be_started_is_an_error() -> None:
    async def run() -> None:
        Children().start(["/no/such/command"], os.environ)

    with pytest.raises(FileNotFoundError):
        asyncio.run(run())


_PARENT = """
import asyncio, os, pathlib, subprocess, sys
from ringtrain.processes import Children, adopt_orphans
async def main():
    adopt_orphans()
    children = Children()
    child = children.start([sys.executable, "-c", sys.argv[2]], os.environ)
    pathlib.Path(sys.argv[1]).write_text(str(child.pid))
    await asyncio.sleep(600)
asyncio.run(main())
"""


def _parent(path: Path, child: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _PARENT, str(path), child])


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    parent = _parent(path, "import time; time.sleep(600)")
    try:
        until(lambda: path.exists() and path.read_text() != "")
        child = int(path.read_text())
        assert running(child)
    finally:
        parent.kill()
        parent.wait()
    until(lambda: not running(child))


def test_orphans_are_adopted_and_reaped(tmp_path: Path) -> None:
    path, orphan_path = tmp_path / "pid", tmp_path / "orphan"
    # The orphan leaves the group, ends after its parent, and would stay a zombie if nobody reaped it.
    orphan = f"import os, time; os.setsid(); open({str(orphan_path)!r}, 'w').write(str(os.getpid())); time.sleep(0.5)"
    child = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {orphan!r}]); time.sleep(3)"
    parent = _parent(path, child)
    try:
        until(lambda: orphan_path.exists() and orphan_path.read_text() != "")
        until(lambda: not Path(f"/proc/{orphan_path.read_text()}").exists())
        assert parent.poll() is None
    finally:
        parent.kill()
        parent.wait()
