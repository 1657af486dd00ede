"""What agents and coordinator do for ranks that save: they open generations, commit, and delete what is too old."""

import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from checkpoint_way import KEEP
from ringtrain.checkpoint.volume import CommitRefused, commit, prune
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import (
    Committed,
    Enter,
    Message,
    Ready,
    Report,
    SaveFailed,
    ShardFile,
    ShardsWritten,
    decode,
    encode,
)


class Coordinator:
    """Of one generation. It serves each rank on a thread, until that rank's process has ended."""

    def __init__(self, root: Path, generation: Generation, ranks: int, port: int) -> None:
        """`port` is the store's, on loopback."""
        self.committed: dict[int, float] = {}
        """By round: when its checkpoint was whole and flushed, by time.monotonic."""
        self._root = root
        self._generation = generation
        self._mesh = Mesh(data=ranks)
        self._port = port
        self._lock = threading.Lock()
        self._written: dict[int, dict[int, Sequence[ShardFile]]] = {}
        self._connections: list[socket.socket] = []

    def connect(self) -> socket.socket:
        """The end of another rank, for its process to inherit."""
        own, theirs = socket.socketpair()
        self._connections.append(own)
        threading.Thread(target=self._serve, args=(own,), daemon=True).start()
        return theirs

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                self._take(connection, decode(line))

    def _take(self, connection: socket.socket, message: Message) -> None:
        match message:
            case Ready():
                enter = Enter(
                    generation=str(self._generation),
                    world_size=self._mesh.size,
                    store_host="127.0.0.1",
                    store_port=self._port,
                )
                connection.sendall(encode(enter))
            case ShardsWritten(rank=rank, round=round, files=files):
                self._take_shards(rank, round, files)
            case SaveFailed(rank=rank, round=round, reason=reason):
                self._answer(round, f"rank {rank}: {reason}")
            case Report(message=text):
                print(text, file=sys.stderr)

    def _take_shards(self, rank: int, round: int, files: Sequence[ShardFile]) -> None:
        with self._lock:
            shards = self._written.setdefault(round, {})
            shards[rank] = files
            if len(shards) < self._mesh.size:
                return
        try:
            commit(self._root, self._generation, round, shards, self._mesh, job="bench")
        except (CommitRefused, OSError) as error:
            self._answer(round, str(error))
            return
        self.committed[round] = time.monotonic()
        self._answer(round, "")
        for problem in prune(self._root, KEEP):
            print(problem, file=sys.stderr)

    def _answer(self, round: int, error: str) -> None:
        if error:
            print(f"no checkpoint of round {round}: {error}", file=sys.stderr)
        answer = encode(Committed(generation=str(self._generation), round=round, error=error))
        for connection in self._connections:
            connection.sendall(answer)
