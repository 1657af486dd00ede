"""Whether the kernel has killed for memory in this container."""

from pathlib import Path

_COUNTERS = (
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
)
"""cgroup v2 and v1, as a container sees its own."""


def oom_kills(counters: tuple[Path, ...] = _COUNTERS) -> int:
    """Processes of this container's cgroup that the kernel has killed for memory; 0 where it cannot be told."""
    for path in counters:
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdecimal():
                return int(value)
    return 0
