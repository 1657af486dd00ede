from pathlib import Path

import pytest

from ringtrain.checkpoint.room import available_bytes

GIB = 1 << 30


def machine(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    contents = {"proc/meminfo": "MemTotal: 33554432 kB\nMemAvailable:   16777216 kB\n", "proc/self/cgroup": cgroup}
    for name, text in (contents | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def group(folder: str, limit: str, usage: int, inactive: int) -> dict[str, str]:
    return {
        f"{folder}memory.max": f"{limit}\n",
        f"{folder}memory.current": f"{usage}\n",
        f"{folder}memory.stat": f"anon 1\ninactive_file {inactive}\nactive_file 5\n",
    }


def old_group(folder: str, limit: int, usage: int, inactive: int) -> dict[str, str]:
    return {
        f"{folder}memory.limit_in_bytes": f"{limit}\n",
        f"{folder}memory.usage_in_bytes": f"{usage}\n",
        f"{folder}memory.stat": f"cache 1\ninactive_file 0\ntotal_inactive_file {inactive}\n",
    }


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/\n", {}, 16 * GIB),
        ("0::/\n", group("", str(8 * GIB), 6 * GIB, GIB), 3 * GIB),
        ("0::/pod/trainer\n", group("pod/trainer/", str(8 * GIB), 6 * GIB, 0), 2 * GIB),
        ("0::/pod/trainer\n", group("pod/trainer/", "max", 6 * GIB, 0), 16 * GIB),
        ("0::/\n", group("", str(64 * GIB), 6 * GIB, 0), 16 * GIB),
        ("5:cpu,memory:/pod\n0::/\n", old_group("memory/pod/", 8 * GIB, 6 * GIB, GIB), 3 * GIB),
        ("5:memory:/seen/from/outside\n", old_group("memory/", 8 * GIB, 6 * GIB, 0), 2 * GIB),
        ("4:cpu:/pod\n", old_group("memory/pod/", 8 * GIB, 6 * GIB, 0), 16 * GIB),
    ],
)
def test_the_group_limits_what_the_machine_has(
    tmp_path: Path, cgroup: str, files: dict[str, str], expected: int
) -> None:
    assert available_bytes(machine(tmp_path, cgroup, files)) == expected


def test_this_machine_has_some() -> None:
    assert available_bytes() > 0
