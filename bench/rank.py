"""One rank of the communication benchmark: bench/communication.py starts it on its machine and tells it what to do.

Orders come as lines of JSON, and every one is answered by a line.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, TextIO

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import TCPStore

from emulate import Device, Emulated, Loss, Profile, profile
from ringtrain.checkpoint.randomness import seed
from ringtrain.comm.codec import zfp
from ringtrain.comm.forming import form_group
from ringtrain.comm.meter import Meter, RoundTraffic
from ringtrain.comm.reducer import Reducer
from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain.data.corpus import load_corpus
from ringtrain.data.loader import Batches
from ringtrain.models import build_model
from ringtrain.train.optimizer import AdamW
from rows import PREPARATION, Row, rows, wrap

_TIMEOUT = timedelta(minutes=5)
_DIE_WITH_PARENT = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank stands, and what it trains."""

    rank: int
    size: int
    processes: int
    """On each machine."""
    address: str
    store: str
    port: int
    emulated: bool
    config: TrainerConfig

    @classmethod
    def from_json(cls, text: str) -> "Place":
        value = json.loads(text)
        return cls(**{**value, "config": TrainerConfig.model_validate(value["config"])})


class Trial:
    """One row, from its group's forming to its end."""

    def __init__(self, place: Place, row: Row, generation: str, computed: Profile | None) -> None:
        self._place = place
        self.group = form_group(
            place.rank, place.size, place.store, place.port, generation, "cpu", place.address, _TIMEOUT,
            lambda: None, place.processes,
        )  # fmt: skip
        config = place.config
        self._device = Device()
        seed(config.seed)
        corpus = load_corpus(config.data)
        self._batches = Batches(corpus, config, place.rank, place.size)
        loss = Loss(build_model(config.model, corpus.vocabulary, config.seed))
        self._optimizer = AdamW(loss.model, config.optimizer)
        self._optimize: Callable[[], None] = lambda: self._optimizer.step(config.optimizer.learning_rate)
        module: nn.Module = loss
        if computed is not None:
            torch.autograd.backward(self._loss(loss)[0])
            module = Emulated(loss, computed, self._device)
            self._optimizer.clear_gradients()
            self._optimize = lambda: self._emulate_optimizer(computed.optimizer)
        self._meter = Meter()
        self._metered = row.ours is not None
        self._rounds = 0
        self._backward = self._ours(module, row) if row.ours is not None else self._peer(module, row)
        for _ in range(PREPARATION):
            self._round()
        self._device.enabled = True

    def profile(self) -> Profile:
        """Of this rank alone."""
        config = self._place.config
        loss = Loss(build_model(config.model, load_corpus(config.data).vocabulary, config.seed))
        optimizer = AdamW(loss.model, config.optimizer)
        return profile(loss, self._batches.next(), lambda: _step(optimizer))

    def run(self, rounds: int) -> dict[str, Any]:
        """Seconds of each round; CPU seconds of this process and what the meter says, per round."""
        cpu, seconds, traffic = time.process_time(), [], []
        for _ in range(rounds):
            began = time.monotonic()
            traffic.append(self._round())
            seconds.append(time.monotonic() - began)
        result = {"seconds": seconds, "cpu": (time.process_time() - cpu) / rounds}
        return result | (_means(traffic) if self._metered else {})

    def barrier(self) -> None:
        self.group.barrier()

    def close(self) -> None:
        self._end()
        self.group.destroy()

    def _round(self) -> RoundTraffic:
        self._rounds += 1
        self._meter.begin_round()
        self._backward()
        self._optimize()
        self._optimizer.clear_gradients()
        return self._meter.end_round()

    def _loss(self, module: nn.Module) -> Any:
        batch = self._batches.next()
        return module(batch.tokens, batch.targets)

    def _emulate_optimizer(self, seconds: float) -> None:
        self._device.start()
        self._device.work(seconds)

    def _ours(self, module: nn.Module, row: Row) -> Callable[[], None]:
        assert row.ours is not None
        reducer = Reducer(module, self.group, row.ours, self._meter)
        self._end: Callable[[], None] = reducer.close

        def backward() -> None:
            reducer.begin_round(self._rounds)
            loss, tokens = self._loss(module)
            torch.autograd.backward(loss)
            reducer.finish(float(tokens), loss.item())

        return backward

    def _peer(self, module: nn.Module, row: Row) -> Callable[[], None]:
        assert row.peer is not None
        wrapped = wrap(module, row.peer, lambda: dist.new_group(backend="gloo", timeout=_TIMEOUT))
        self._end = lambda: None

        def backward() -> None:
            loss, tokens = self._loss(wrapped)
            torch.autograd.backward(loss / tokens)

        return backward


def _step(optimizer: AdamW) -> None:
    optimizer.step(0.0)
    optimizer.clear_gradients()


def _means(rounds: list[RoundTraffic]) -> dict[str, float]:
    """Of one round."""
    names = ("codec_seconds", "wire_seconds", "sent_bytes")
    means = {f"inter_{name}": sum(getattr(each.inter, name) for each in rounds) / len(rounds) for name in names}
    times = [field.name for field in fields(RoundTraffic) if field.name.endswith("_seconds")]
    return means | {name: sum(getattr(each, name) for each in rounds) / len(rounds) for name in times}


def _serve(place: Place, orders: TextIO, answers: TextIO) -> None:
    trial: Trial | None = None
    for line in orders:
        order = json.loads(line)
        answer: Any = None
        match order["do"]:
            case "prepare":
                computed = Profile.from_json(order["profile"]) if order["profile"] else None
                trial = Trial(place, rows()[order["row"]], order["generation"], computed)
            case "profile":
                assert trial is not None
                answer = trial.profile().to_json()
            case "run":
                assert trial is not None
                answer = trial.run(order["rounds"])
                trial.barrier()
            case "end":
                assert trial is not None
                trial.close()
                trial = None
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    # Gloo prints to the standard output: answers go where nothing else does.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    place = Place.from_json(sys.argv[1])
    store = None
    if place.rank == 0:
        store = TCPStore(place.store, place.port, is_master=True, wait_for_workers=False)
    zfp.warm()
    answers.write("null\n")
    answers.flush()
    _serve(place, sys.stdin, answers)
    del store


if __name__ == "__main__":
    main()
