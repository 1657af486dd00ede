"""Who is measured: the operator as it is, or the bare client, as a process of this machine."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from reconcile_results import OPERATOR

METRICS_PORT, HEALTH_PORT = 18490, 18491
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """Since the process began."""

    cpu: float
    """Seconds."""
    peak_bytes: int
    requests: float
    """To the API server, watches and the lists that begin them not included."""


class Subject:
    """A context manager; the process is killed after the block, and shows its log if it failed."""

    def __init__(self, who: str, namespace: str) -> None:
        self.who = who
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 closed with the block
        self._namespace = namespace

    async def __aenter__(self) -> Self:
        env = os.environ | {
            "RINGTRAIN_WATCH_NAMESPACES": self._namespace,
            "RINGTRAIN_METRICS_PORT": str(METRICS_PORT),
            "RINGTRAIN_HEALTH_PORT": str(HEALTH_PORT),
        }
        bare = [str(Path(__file__).with_name("reconcile_bare.py")), self._namespace, str(METRICS_PORT)]
        command = ["-m", "ringtrain_operator"] if self.who == OPERATOR else bare
        self._process = subprocess.Popen([sys.executable, *command], env=env, stdout=self._log, stderr=self._log)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        with self._log:
            if kind is not None:
                self._log.seek(0)
                print(f"the log of the {self.who}:\n{self._log.read()[-5000:]}", file=sys.stderr)

    def is_ready(self) -> bool:
        port, path = (HEALTH_PORT, "readyz") if self.who == OPERATOR else (METRICS_PORT, "metrics")
        try:
            with urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
                return bool(answer.status == 200)
        except URLError:
            return False

    def usage(self) -> Usage:
        assert self._process.poll() is None, f"the {self.who} has ended"
        proc = Path(f"/proc/{self._process.pid}")
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        with urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics") as answer:
            families = text_string_to_metric_families(answer.read().decode())
        samples = (sample for family in families for sample in family.samples)
        return Usage(
            cpu=(int(fields[11]) + int(fields[12])) / _TICKS,
            peak_bytes=int(status["VmHWM"].split()[0]) * 1024,
            requests=sum(s.value for s in samples if s.name == "ringtrain_operator_api_requests_total"),
        )
