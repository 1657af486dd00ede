"""The operator as a process of this machine, over one namespace of a real cluster: it can be killed at any moment."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from support.kube import Kube

EXIT_SECONDS = 30.0


class OperatorProcess:
    """`stop` must be called. The log of all its lives is appended to `log`."""

    def __init__(self, namespace: str, log: Path, resync_seconds: float = 5.0, **env: str) -> None:
        """`env`: more settings, without their prefix."""
        self.log = log
        self.health_port, self.metrics_port, self.page_port = free_ports(3)
        self._env = os.environ | {
            "RINGTRAIN_WATCH_NAMESPACES": namespace,
            "RINGTRAIN_HEALTH_PORT": str(self.health_port),
            "RINGTRAIN_METRICS_PORT": str(self.metrics_port),
            "RINGTRAIN_PAGE_PORT": str(self.page_port),
            "RINGTRAIN_RESYNC_SECONDS": str(resync_seconds),
        }
        self._env |= {f"RINGTRAIN_{name}": value for name, value in env.items()}
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self, kube: Kube) -> Iterator[Self]:
        """Started, and ready; killed after the block, its log printed: pytest shows it when the test fails."""
        try:
            self.start()
            kube.until("the operator is ready", self.is_ready)
            yield self
        finally:
            self.kill()
            print(self.log.read_text())  # noqa: T201

    def start(self) -> None:
        assert self._process is None, "it runs already"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ringtrain_operator"], env=self._env, stdout=output, stderr=output
            )

    def kill(self) -> None:
        """SIGKILL, as when its node dies."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """SIGTERM, as when its pod is deleted. Returns the exit status."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(EXIT_SECONDS)
        finally:
            self.kill()

    def pause(self) -> None:
        """SIGSTOP, as when its machine stands still."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> int:
        """Of an operator that ends by itself then. Returns the exit status."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(signal.SIGCONT)
        try:
            return self._process.wait(EXIT_SECONDS)
        finally:
            self.kill()

    def is_ready(self) -> bool:
        return self.get(self.health_port, "/readyz")[0] == 200

    def get(self, port: int, path: str) -> tuple[int, str]:
        """HTTP status and body; status 0 when there is no answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in sockets]
    finally:
        for probe in sockets:
            probe.close()
