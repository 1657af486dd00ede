"""The command-line tools that tests run: helm and kubectl, fetched into the checkout's cache when they are missing."""

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTBED = ROOT / "testbed"
CHART = ROOT / "charts" / "ringtrain"


class CommandError(AssertionError):
    """A command failed; the message holds what it said."""


def command(
    *args: str | Path, timeout: float = 60.0, stdin: str | None = None, env: dict[str, str] | None = None
) -> str:
    """The standard output of a command. Raises CommandError when it fails, subprocess.TimeoutExpired when it hangs."""
    done = subprocess.run(
        [str(arg) for arg in args],
        input=stdin or "",
        capture_output=True,
        text=True,
        timeout=timeout,
        env=env,
        check=False,
    )
    if done.returncode:
        raise CommandError(f"{' '.join(map(str, args))}\nexit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@functools.cache
def tool(name: str) -> Path:
    """The path of `helm` or `kubectl`."""
    return Path(command(TESTBED / "fetch-tools", timeout=300).strip()) / name
