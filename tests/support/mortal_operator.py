"""An operator that dies at a request of one's choice, as if its machine lost power there."""

import asyncio
import os
import signal
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.operate import operate
from ringtrain_operator.settings import Settings
from support.operator_process import free_ports


@dataclass(frozen=True, slots=True)
class Call:
    """One of its requests."""

    verb: str
    path: str
    """With `JOB` in place of the job's name."""
    nth: int
    """Of those alike, from 1."""

    def __str__(self) -> str:
        return f"{self.verb} {self.path} {self.nth}"


@dataclass(frozen=True, slots=True)
class Death:
    call: Call
    when: Literal["before", "after"]
    """Before the request is sent, or when it has taken effect and before anything is known of it."""


class MortalOperator:
    """A process forked from this one: so it is there at once, and dies alone."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        """Its log is `folder`/log."""
        self._settings = settings
        self._log = folder / "log"
        self._calls = folder / "calls"
        self._pid: int | None = None

    def start(self, job: str, death: Death | None = None) -> None:
        """`job` is the one whose name is replaced in paths."""
        assert self._pid is None, "it runs already"
        self._calls.write_text("")
        health, metrics, page = free_ports(3)
        settings = replace(self._settings, health_port=health, metrics_port=metrics, page_port=page)
        self._pid = os.fork()
        if self._pid == 0:
            output = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            _count_calls(os.open(self._calls, os.O_WRONLY | os.O_APPEND), job, death)
            try:
                asyncio.run(operate(settings))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(1)

    def calls(self) -> list[Call]:
        """All so far, each with how many like it came before."""
        seen = Counter[tuple[str, str]]()
        found = []
        for line in self._calls.read_text().splitlines():
            verb, path = line.split(" ")
            seen[verb, path] += 1
            found.append(Call(verb, path, seen[verb, path]))
        return found

    def has_died(self) -> bool:
        """Once true, it can be started again. Raises AssertionError when it ended in another way than by its death."""
        assert self._pid is not None, "it does not run"
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            return False
        self._pid = None
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, self._log.read_text()
        return True

    def kill(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = None


def _count_calls(file: int, job: str, death: Death | None) -> None:
    """In the child: writes down each request, and dies at one."""
    attempt = KubernetesApi._attempt
    seen = Counter[tuple[str, str]]()

    async def mortal(self: KubernetesApi, verb: Any, path: str, *rest: Any) -> Any:
        like = (verb, path.replace(job, "JOB"))
        seen[like] += 1
        os.write(file, f"{like[0]} {like[1]}\n".encode())
        dies = death is not None and death.call == Call(*like, seen[like])
        if dies and death is not None and death.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await attempt(self, verb, path, *rest)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    KubernetesApi._attempt = mortal  # type: ignore[method-assign, assignment]
