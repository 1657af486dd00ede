"""torchrun: four agents of one worker each, elastic, by its c10d rendezvous."""

import socket
import sys
from pathlib import Path

from recovery_peer import Peer
from recovery_results import RANKS

_WORKER = Path(__file__).with_name("recovery_torchrun_rank.py")


class Torchrun(Peer):
    def start(self) -> None:
        port = free_port()
        for node in range(RANKS):
            self.launch(
                [
                    *torchrun(nodes=RANKS),
                    "--rdzv-backend=c10d",
                    f"--rdzv-endpoint=127.0.0.1:{port}",
                    # The first agent has the store.
                    f"--rdzv-conf=is_host={int(node == 0)}",
                    "--rdzv-id=bench",
                    "--local-addr=127.0.0.1",
                    str(_WORKER),
                    str(self.directory),
                ],
                # Otherwise workers that are started again find what was left in the store by those before, and fail.
                TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
            )


def torchrun(nodes: int) -> list[str]:
    """It looks for dead workers every 0.1 s."""
    return [
        sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}", "--nproc-per-node=1",
        "--max-restarts=100", "--monitor-interval=0.1",
    ]  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
