"""How much memory there is to be had: the machine's, and what the container's control group leaves of it."""

from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def available_bytes(root: Path = _ROOT) -> int:
    """Memory that can be had without taking it from anybody, and without being killed for it.

    Of files that the kernel keeps in memory it drops those that are not in use before it kills anybody (Linux,
    Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst). Below `root` lie proc and sys.
    """
    return min([_of_machine(root), *_of_groups(root)])


def _of_machine(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    raise RuntimeError("/proc/meminfo has no MemAvailable")


def _of_groups(root: Path) -> Iterator[int]:
    mounted = root / "sys/fs/cgroup"
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _left(_seen(mounted, path), "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            group = _seen(mounted / "memory", path)
            yield from _left(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _seen(mounted: Path, path: str) -> Path:
    """Containers without a control group namespace see their own group as the root."""
    group = mounted / path.lstrip("/")
    return group if group.is_dir() else mounted


def _left(group: Path, limit: str, usage: str, droppable: str) -> Iterator[int]:
    try:
        most, used = (group / limit).read_text().strip(), int((group / usage).read_text())
        counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except FileNotFoundError:
        # The root group, or one without this controller.
        return
    if most != "max":
        yield int(most) - used + int(counts.get(droppable, 0))
