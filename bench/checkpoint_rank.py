"""One rank of the checkpoint benchmark: a process that bench/checkpoint.py starts and tells what to do.

Orders come as lines of JSON, and every one is answered by a line.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

import torch

from checkpoint_results import FLOOR, OURS, TORCH_SAVE
from checkpoint_way import TorchSave, Way
from ringtrain.checkpoint.digest import tree_digest
from ringtrain.checkpoint.memory import Memory
from ringtrain.checkpoint.tiers import Tiers
from ringtrain.comm.forming import form_group
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.data.corpus import load_corpus
from ringtrain.runtime.session import Session
from ringtrain.train.process import prepare
from ringtrain.train.trainer import Trainer

_TIMEOUT = timedelta(minutes=5)
_DIE_WITH_PARENT = 1


@dataclass(frozen=True, slots=True)
class Place:
    """What a rank is told beside its environment."""

    way: str
    root: str
    port: int
    """Of the store, on loopback."""
    generation: str


class Rank:
    """From its group's forming on."""

    def __init__(self, place: Place, environment: ReplicaEnvironment) -> None:
        assert environment.trainer is not None
        prepare(environment.trainer.threads, torch.device("cpu"))
        session = Session.from_environment() if place.way in OURS else None
        if session is not None:
            session.next_generation()
        self._group = form_group(
            environment.replica, environment.replicas, "127.0.0.1", place.port, place.generation, "cpu", "127.0.0.1",
            _TIMEOUT, (lambda: None) if session is None else session.poll,
        )  # fmt: skip
        self._trainer = Trainer(
            environment.trainer,
            environment.parallelism,
            environment.communication,
            load_corpus(environment.trainer.data),
            self._group,
        )
        self._way = self._make_way(place, environment, session)

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self._trainer.model.parameters())

    def rounds(self, numbers: Sequence[int]) -> dict[str, Any]:
        """Trains rounds of these numbers; when it returns, all that they save is on disk."""
        seconds, stalls, saved = [], [], []
        self._group.barrier()
        for number in numbers:
            began = time.monotonic()
            stalls.append(self._round(number))
            seconds.append(time.monotonic() - began)
            saved.append(number in self._way.started)
        self._way.drain()
        return {
            "seconds": seconds,
            "stalls": stalls,
            "saved": saved,
            "started": {number: self._way.started[number] for number in numbers if number in self._way.started},
            "flushed": {number: self._way.flushed[number] for number in numbers if number in self._way.flushed},
        }

    def restore(self, round: int) -> float:
        """Seconds that it took."""
        self._group.barrier()
        began = time.monotonic()
        self._way.restore(round)
        return time.monotonic() - began

    def digest(self) -> str:
        """Of parameters and moments."""
        state = self._trainer.state().replicated
        moments = {name: state["optimizer"][name] for name in ("first", "second")}
        return tree_digest({"model": state["model"], **moments})

    def close(self) -> None:
        self._way.close()

    def _round(self, number: int) -> float:
        """Seconds of it that are stall."""
        trainer, way = self._trainer, self._way
        trainer.begin_round()
        trainer.train_micro_batch()
        trained = time.monotonic()
        way.before_step()
        votes = way.votes()
        stepping = time.monotonic()
        finished = trainer.finish_round(votes, lambda: None)
        stepped = time.monotonic()
        way.end_round(number, finished.votes)
        return stepping - trained + time.monotonic() - stepped

    def _make_way(self, place: Place, environment: ReplicaEnvironment, session: Session | None) -> Way:
        # Imported where they are used: what a way needs of code counts as its memory.
        trainer, group, root = self._trainer, self._group, Path(place.root)
        if session is not None:
            from checkpoint_ours import Ours

            assert environment.checkpoint is not None
            return Ours(trainer, group, environment.checkpoint, session, Tiers(Memory.from_environment()))
        if place.way == FLOOR:
            return Way(trainer, group, root)
        if place.way == TORCH_SAVE:
            return TorchSave(trainer, group, root)
        from checkpoint_dcp import OPTIONS, Dcp

        return Dcp(trainer, group, root, OPTIONS[place.way])


def _serve(rank: Rank, orders: TextIO, answers: TextIO) -> None:
    for line in orders:
        order = json.loads(line)
        match order["do"]:
            case "rounds":
                answer: Any = rank.rounds(order["numbers"])
            case "restore":
                answer = rank.restore(order["round"])
            case "digest":
                answer = rank.digest()
        _answer(answers, answer)


def _answer(answers: TextIO, value: Any) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def main() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    # Gloo prints to the standard output: answers go where nothing else does.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    rank = Rank(Place(**json.loads(sys.argv[1])), ReplicaEnvironment.from_env(os.environ))
    _answer(answers, rank.parameters)
    _serve(rank, sys.stdin, answers)
    rank.close()
    # Whoever still waits for peers must not be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
