"""Machines of a benchmark: network namespaces on one switch, behind links of a set speed."""

import json
import os
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_SUBNET = "10.77.0"
_QUEUE_BYTES = 16 * 2**20
"""So long that nothing is dropped: TCP would wait for its time-out, as in no data centre."""
_UNSHAPED_MEGABIT = 20_000.0


class Network:
    """`machines` namespaces, each with one link, `eth0`, to a switch in a namespace of its own.

    Nothing is made outside these namespaces, so that removing them removes all. Leaving the context does that; what a
    killed run left is removed by the next one. Needs root.
    """

    def __init__(self, machines: int) -> None:
        self._prefix = f"ringtrain-bench-{os.getpid()}-"
        self._switch = f"{self._prefix}switch"
        self.namespaces = [f"{self._prefix}{machine}" for machine in range(machines)]
        self.addresses = [f"{_SUBNET}.{machine + 1}" for machine in range(machines)]

    def __enter__(self) -> Self:
        _remove_those_of_dead_runs()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def shape(self, megabit: float | None) -> None:
        """Every machine sends and receives at most `megabit` million bits per second; None: as fast as it can."""
        rate = megabit or _UNSHAPED_MEGABIT
        # A burst holds what TCP hands over at once, and the bytes of the kernel's shortest sleep at that rate.
        burst = max(128 * 1024, int(rate * 1e6 / 8 / 250))
        limits = ["tbf", "rate", f"{int(rate * 1000)}kbit", "burst", str(burst), "limit", str(_QUEUE_BYTES)]
        for namespace, device in self._ends():
            _run("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", *limits)

    def sent_bytes(self) -> list[int]:
        """By each machine so far, as its interface counts them: with all headers and whatever was sent twice."""
        return [_link(namespace)["stats64"]["tx"]["bytes"] for namespace in self.namespaces]

    def dropped(self) -> int:
        """Packets that a full queue refused so far, on all links."""
        text = "".join(_run("tc", "-n", name, "-s", "qdisc", "show", "dev", device) for name, device in self._ends())
        return sum(int(count) for count in re.findall(r"dropped (\d+)", text))

    def _ends(self) -> list[tuple[str, str]]:
        """Both ends of each link: a machine's, which limits what it sends, and the switch's."""
        machines = [(namespace, "eth0") for namespace in self.namespaces]
        return machines + [(self._switch, f"port{machine}") for machine in range(len(machines))]

    def _make(self) -> None:
        for namespace in [self._switch, *self.namespaces]:
            _run("ip", "netns", "add", namespace)
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
        switch = ["ip", "-n", self._switch, "link"]
        _run(*switch, "add", "switch", "type", "bridge")
        _run(*switch, "set", "switch", "up")
        for machine, (namespace, address) in enumerate(zip(self.namespaces, self.addresses, strict=True)):
            port = f"port{machine}"
            _run("ip", "link", "add", "eth0", "netns", namespace, "type", "veth",
                 "peer", "name", port, "netns", self._switch)  # fmt: skip
            _run(*switch, "set", port, "master", "switch", "up")
            _run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
            _run("ip", "-n", namespace, "link", "set", "eth0", "up")
        self.shape(None)

    def _remove(self) -> None:
        for namespace in [*self.namespaces, self._switch]:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


def _remove_those_of_dead_runs() -> None:
    for namespace in Path("/run/netns").glob("ringtrain-bench-*"):
        pid = namespace.name.split("-")[2]
        if not Path("/proc", pid).exists():
            _run("ip", "netns", "del", namespace.name)


def _link(namespace: str) -> Any:
    return json.loads(_run("ip", "-n", namespace, "-s", "-j", "link", "show", "eth0"))[0]


def _run(*command: str) -> str:
    """Its output. Raises RuntimeError with what it said when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode} (networks need root)")
    return done.stdout
