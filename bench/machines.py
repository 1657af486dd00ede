"""The ranks of a benchmark, each a process on its machine."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from links import Network
from results import Setting
from ringtrain.contract.trainer_config import TrainerConfig

_PORT = 29400


class Ranks:
    """Started once; every trial is a new group of them. Leaving the context ends them."""

    def __init__(self, network: Network, setting: Setting, config: TrainerConfig) -> None:
        self._trials = 0
        self._processes: list[subprocess.Popen[str]] = []
        self._commands = [
            self._command(network, setting, config, rank) for rank in range(setting.machines * setting.processes)
        ]

    def __enter__(self) -> Self:
        try:
            for command in self._commands:
                # A session of its own: Ctrl-C is for the benchmark, which then ends its ranks.
                self._processes.append(
                    subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
                    )
                )
            self._hear()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()

    def profile(self) -> dict[str, Any]:
        """Compute times, of a rank whose peers do nothing."""
        self.prepare("ddp-none", None)
        self._say([self._processes[0]], do="profile")
        profile: dict[str, Any] = self._hear([self._processes[0]])[0]
        self.end()
        return profile

    def prepare(self, row: str, profile: dict[str, Any] | None) -> None:
        self._trials += 1
        self._all(do="prepare", row=row, generation=f"0.{self._trials}", profile=profile)

    def run(self, rounds: int) -> list[dict[str, Any]]:
        """What each rank measured; see rank.Trial.run."""
        return self._all(do="run", rounds=rounds)

    def end(self) -> None:
        self._all(do="end")

    def _all(self, **order: Any) -> list[Any]:
        self._say(self._processes, **order)
        return self._hear()

    def _say(self, to: list[subprocess.Popen[str]], **order: Any) -> None:
        for process in to:
            assert process.stdin is not None
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()

    def _hear(self, of: list[subprocess.Popen[str]] | None = None) -> list[Any]:
        answers = []
        for process in of or self._processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"rank {self._processes.index(process)} ended with {process.wait()}")
            answers.append(json.loads(line))
        return answers

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    @staticmethod
    def _command(network: Network, setting: Setting, config: TrainerConfig, rank: int) -> list[str]:
        machine = rank // setting.processes
        place = {
            "rank": rank,
            "size": setting.machines * setting.processes,
            "processes": setting.processes,
            "address": network.addresses[machine],
            "store": network.addresses[0],
            "port": _PORT,
            "emulated": setting.emulated,
            "config": config.model_dump(mode="json", by_alias=True),
        }
        program = str(Path(__file__).with_name("rank.py"))
        # Where there is no name server, nobody should wait for one.
        settings = ["GLOO_SOCKET_IFNAME=eth0", "RES_OPTIONS=timeout:1 attempts:1"]
        return [
            "ip", "netns", "exec", network.namespaces[machine], "env", *settings,
            sys.executable, program, json.dumps(place),
        ]  # fmt: skip
