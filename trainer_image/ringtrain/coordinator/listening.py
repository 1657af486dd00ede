"""Whether a TCP port is listened at, seen from outside of the process that may: nothing is sent to it."""

from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN = "0A"


def listened_at(port: int, tables: tuple[Path, ...] = _TABLES) -> bool:
    """At any address of this network namespace; False where it cannot be told."""
    for table in tables:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        # sl local_address rem_address st ...
        if any(fields[1].endswith(f":{port:04X}") and fields[3] == _LISTEN for fields in map(str.split, lines)):
            return True
    return False
