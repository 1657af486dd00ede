"""One pod's life, with a small real process in the agent's place."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ringtrain.contract.addresses import AGENT_PORT, Addresses
from ringtrain_operator.local.container import Container
from ringtrain_operator.local.kubelet import PodFiles, PodProcess
from ringtrain_operator.local.probes import Probe
from ringtrain_operator.local.termination_log import TerminationLog
from ringtrain_operator.plan.observed import Pod, PodPhase
from support.environments import replica_environment

pytestmark = pytest.mark.distributed

# Serves 200 on /PATH as long as the file PATH exists. On SIGTERM: its code is 82 if /livez fails, else 80.
AGENT = """
import http.server, os, pathlib, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if pathlib.Path(self.path[1:]).exists() else 503)
        self.end_headers()
    def log_message(self, *_): pass
def stop(*_):
    pathlib.Path(os.environ["TERMINATION"]).write_text("asked to stop")
    os._exit(80 if pathlib.Path("livez").exists() else 82)
signal.signal(signal.SIGTERM, stop)
pathlib.Path("started").touch()
http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""
DEAF = (
    "import signal, time, pathlib; signal.signal(15, signal.SIG_IGN); pathlib.Path('started').touch(); time.sleep(99)"
)


def pod_process(
    folder: Path, arguments: tuple[str, ...] | None = None, grace: float = 30, lost: list[OSError] | None = None
) -> PodProcess:
    replica = replica_environment(
        job="small", epoch=3, addresses=Addresses("loopback", f"127.{100 + os.getpid() % 100}")
    )
    address, last_words = replica.addresses.of(0), TerminationLog()
    container = Container(
        arguments=arguments or (sys.executable, "-c", AGENT, address, str(AGENT_PORT)),
        environment={**os.environ, "TERMINATION": str(last_words.path)},
        replica=replica,
        liveness=Probe(path="/livez", port=AGENT_PORT, initial_delay=1, period=0.1, timeout=5, failure_threshold=2),
        readiness=Probe(path="/readyz", port=AGENT_PORT, period=0.1, timeout=5, failure_threshold=1),
        grace_seconds=grace,
    )
    (folder / "livez").touch()
    files = PodFiles(folder / "log", folder / "message")
    return PodProcess(
        "small-0-3",
        "uid",
        container,
        files,
        last_words,
        holding=False,
        changed=lambda: None,
        not_written=([] if lost is None else lost).append,
    )


def live(process: PodProcess, folder: Path, scenario: Callable[[], Awaitable[None]]) -> Pod:
    """The pod as it ended, after `scenario` was played with it."""

    async def whole_life() -> Pod:
        await process.start(folder)
        try:
            await scenario()
            await asyncio.wait_for(process.wait(), 60)
        finally:
            process.stop(deleting=False, force=True)
            await process.wait()
        return process.pod

    return asyncio.run(whole_life())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


def test_readiness_comes_and_goes(tmp_path: Path) -> None:
    process = pod_process(tmp_path)

    async def scenario() -> None:
        assert process.pod.phase is PodPhase.RUNNING
        assert not process.pod.ready
        (tmp_path / "readyz").touch()
        await until(lambda: process.pod.ready)
        (tmp_path / "readyz").unlink()
        await until(lambda: not process.pod.ready)
        process.stop(deleting=True)
        assert process.pod.deleting

    pod = live(process, tmp_path, scenario)
    assert (pod.phase, pod.exit_code, pod.reason, pod.message) == (PodPhase.FAILED, 80, "Error", "asked to stop")
    assert (tmp_path / "message").read_text() == "asked to stop"
    assert (pod.name, pod.uid, pod.index, pod.epoch) == ("small-0-3", "uid", 0, 3)


def test_a_pod_that_is_not_live_is_stopped(tmp_path: Path) -> None:
    process = pod_process(tmp_path)

    async def scenario() -> None:
        await until((tmp_path / "started").exists)
        (tmp_path / "livez").unlink()

    pod = live(process, tmp_path, scenario)
    assert (pod.phase, pod.exit_code, pod.deleting) == (PodPhase.FAILED, 82, False)


@pytest.mark.parametrize("force", [False, True])
def test_a_deaf_pod_is_killed_after_its_grace_period_or_at_once(tmp_path: Path, force: bool) -> None:
    process = pod_process(tmp_path, (sys.executable, "-c", DEAF), grace=3600 if force else 0.2)

    async def scenario() -> None:
        await until((tmp_path / "started").exists)
        process.stop(deleting=True, force=force)

    pod = live(process, tmp_path, scenario)
    assert (pod.phase, pod.exit_code) == (PodPhase.FAILED, 137)


def test_exit_code_zero_is_success(tmp_path: Path) -> None:
    async def nothing() -> None:
        pass

    pod = live(pod_process(tmp_path, (sys.executable, "-c", "print('hello')")), tmp_path, nothing)
    assert (pod.phase, pod.exit_code, pod.reason) == (PodPhase.SUCCEEDED, 0, "Completed")
    assert (tmp_path / "log").read_text() == "hello\n"


def test_files_that_cannot_be_written_cost_neither_the_pod_nor_its_last_words(tmp_path: Path) -> None:
    lost: list[OSError] = []
    # More than fits into a pipe that nobody reads.
    talker = "import os, pathlib\nprint('x' * 300000)\npathlib.Path(os.environ['TERMINATION']).write_text('done')"
    process = pod_process(tmp_path, (sys.executable, "-c", talker), lost=lost)
    # A folder in the way: what writing meets on a full disk, also for root.
    process.files.log.mkdir()
    process.files.termination.mkdir()

    async def nothing() -> None:
        pass

    pod = live(process, tmp_path, nothing)
    assert (pod.phase, pod.message) == (PodPhase.SUCCEEDED, "done")
    assert {error.filename for error in lost} == {str(process.files.log), str(process.files.termination)}


def test_a_command_that_does_not_exist_is_a_failed_pod(tmp_path: Path) -> None:
    async def nothing() -> None:
        pass

    pod = live(pod_process(tmp_path, ("/no/such/program",)), tmp_path, nothing)
    assert (pod.phase, pod.exit_code) == (PodPhase.FAILED, 127)
    assert pod.message == "cannot start /no/such/program: No such file or directory"
