"""torchft: four replica groups of one worker each, under torchrun and its Lighthouse."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from recovery_peer import Peer
from recovery_results import RANKS
from recovery_torchrun import free_port, torchrun

_VERSION = "0.2.0"
_WORKER = Path(__file__).with_name("recovery_torchft_rank.py")
_ENVIRONMENT = Path(__file__).parents[1] / ".cache" / f"torchft-{_VERSION}"
LIGHTHOUSE = "torchft_lighthouse"
"""Its program."""
LIGHTHOUSE_OPTIONS = (
    "--min_replicas=1",
    "--quorum_tick_ms=100",
    "--join_timeout_ms=10000",
    "--heartbeat_timeout_ms=1000",
)
_ALSO_NEEDED = ("google", "tqdm")
"""Of this environment's packages, by torchft, and not in the trainer's image."""


class TorchFT(Peer):
    def start(self) -> None:
        python = install()
        port = free_port()
        self.launch([str(python.with_name(LIGHTHOUSE)), f"--bind=127.0.0.1:{port}", *LIGHTHOUSE_OPTIONS])
        for replica in range(RANKS):
            _, *arguments = torchrun(nodes=1)
            self.launch(
                [str(python), *arguments, f"--master-port={free_port()}", str(_WORKER), str(replica), "localhost"],
                TORCHFT_LIGHTHOUSE=f"http://127.0.0.1:{port}",
                **search_path(),
            )


def install() -> Path:
    """The Python of a virtual environment of its own, in which torchft finds this one's packages: torch is the same."""
    python = _ENVIRONMENT / "bin" / "python"
    done = _ENVIRONMENT / "installed"
    if not done.exists():
        venv.create(_ENVIRONMENT, clear=True, with_pip=True)
        own = Path(sysconfig.get_path("purelib", vars={"base": str(_ENVIRONMENT)}))
        (own / "bench.pth").write_text(sysconfig.get_path("purelib") + "\n")
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"torchft=={_VERSION}"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        done.touch()
    return python


def bundle(target: Path) -> None:
    """torchft and its Lighthouse for the Python of a trainer's image, which must find `target` on its search path."""
    python = install()
    (own,) = python.parents[1].glob("lib/*/site-packages")
    shutil.copytree(own, target, ignore=shutil.ignore_patterns("pip*", "setuptools*", "*.pth", "__pycache__"))
    for name in _ALSO_NEEDED:
        shutil.copytree(Path(sysconfig.get_path("purelib")) / name, target / name, dirs_exist_ok=True)
    shutil.copy(python.with_name(LIGHTHOUSE), target)


def search_path() -> dict[str, str]:
    """Editable installs of this environment are found by its own Python only."""
    root = Path(__file__).parents[1]
    found = [str(root / "trainer_image"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, found))}
