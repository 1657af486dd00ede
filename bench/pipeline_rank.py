"""One rank of the pipeline benchmark: a process of its own."""

import importlib
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.forming import form_group
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.trainer_config import BatchConfig, DataConfig, ModelConfig, TrainerConfig
from ringtrain.data.corpus import load_corpus
from ringtrain.data.loader import Batches
from ringtrain.models import build_model
from ringtrain.models.language_model import LanguageModel, loss_sum
from ringtrain.models.stage import Stage, of_rank
from ringtrain.parallel.build import cut_model
from ringtrain.train.process import prepare
from ringtrain.train.trainer import Trainer

BATCH = 16
_UNCOUNTED = 2
_TIMEOUT = timedelta(seconds=300)
_SCHEDULES: dict[str, Any] = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to train."""

    table: str
    pipeline: int
    microbatches: int
    schedule: str
    sleep: float = 0.0
    """Seconds of one sub-layer's forward pass; 0: it computes."""
    peer: bool = False
    """torch's pipelining and optimizer, without Ringtrain."""
    activation_checkpointing: bool = False
    layers: int = 8
    width: int = 256
    heads: int = 4
    context_length: int = 128
    room: int = 0
    """MiB that a rank may allocate beyond what it has before it builds anything; 0: as it likes."""

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**value)

    @property
    def sublayers(self) -> int:
        return 2 * self.layers

    @property
    def tokens(self) -> int:
        """Of a batch."""
        return BATCH * self.context_length

    @property
    def ours(self) -> Self:
        """The same by Ringtrain."""
        return replace(self, peer=False)

    @property
    def parallelism(self) -> ParallelismConfig:
        pipeline: dict[str, Any] = {"microbatches": self.microbatches, "schedule": self.schedule}
        return ParallelismConfig(
            pipeline=self.pipeline,
            activation_checkpointing=self.activation_checkpointing,
            **(pipeline if self.pipeline > 1 else {}),
        )

    @property
    def config(self) -> TrainerConfig:
        return TrainerConfig(
            rounds=1000,
            model=ModelConfig(
                layers=self.layers, width=self.width, heads=self.heads, context_length=self.context_length
            ),
            data=DataConfig(paths=("{stdlib}/*.py",)),
            # Without a pipeline, micro-batches are accumulated.
            batch=BatchConfig(per_rank=BATCH)
            if self.pipeline > 1
            else BatchConfig(per_rank=BATCH // self.microbatches, accumulation=self.microbatches),
        )


def measure(connection: Connection, row: Row, rank: int, port: int, rounds: int) -> None:
    """Trains, and sends what it took."""
    prepare(1, torch.device("cpu"))
    before = _mebibytes("VmRSS")
    if row.room:
        # What torch imports when it first recomputes activations: a part of its own size.
        importlib.import_module("torch._dynamo")
        limit = int((_mebibytes("VmData") + row.room) * 2**20)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    seconds = []
    try:
        model, batch = (_peer if row.peer else _ours)(row, rank, port)
        for _ in range(rounds):
            began = time.monotonic()
            batch()
            seconds.append(time.monotonic() - began)
    except (RuntimeError, MemoryError) as error:
        if not row.room:
            raise
        connection.send({"died": str(error).splitlines()[0]})
        # Its peers end by the loss of its connections.
        os._exit(1)
    connection.send(
        {
            "seconds": seconds[_UNCOUNTED:] or seconds[-1:],
            "peak_mebibytes": _mebibytes("VmHWM") - before,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        }
    )
    # Whoever is done first must not end the others' connections.
    connection.recv()
    os._exit(0)


def _ours(row: Row, rank: int, port: int) -> tuple[nn.Module, Callable[[], None]]:
    group = form_group(
        rank, row.pipeline, "127.0.0.1", port, "0.0", "cpu", "127.0.0.1", _TIMEOUT, lambda: None, row.pipeline,
        Mesh(data=1, pipeline=row.pipeline),
    )  # fmt: skip
    communication = CommunicationConfig(codec="none")
    trainer = Trainer(row.config, row.parallelism, communication, load_corpus(row.config.data), group)
    _emulate(trainer.model, row.sleep)

    def batch() -> None:
        trainer.begin_round()
        for _ in range(row.config.batch.accumulation):
            trainer.train_micro_batch()
        trainer.finish_round(Votes(), lambda: None)

    return trainer.model, batch


def _peer(row: Row, rank: int, port: int) -> tuple[nn.Module, Callable[[], None]]:
    """As torch's documentation shows it."""
    store = dist.TCPStore("127.0.0.1", port)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=row.pipeline)
    config, corpus = row.config, load_corpus(row.config.data)
    stages = tuple(of_rank(cut_model(config, row.parallelism, corpus.vocabulary), rank, row.pipeline))
    model = build_model(config.model, corpus.vocabulary, config.seed, stages)
    _emulate(model, row.sleep)
    size = BATCH // row.microbatches
    tokens = torch.zeros(size, row.context_length, dtype=torch.int64)
    activations = torch.zeros(size, row.context_length, row.width, requires_grad=True)
    logits = torch.zeros(size, row.context_length, corpus.vocabulary, requires_grad=True)
    torch_stages = [
        PipelineStage(
            _Part(model, stage),
            stage.index,
            stage.count,
            torch.device("cpu"),
            input_args=(tokens if stage.first else activations,),
            output_args=(logits if stage.last else activations,),
        )
        for stage in stages
    ]
    schedule: Any = (
        ScheduleInterleaved1F1B(torch_stages, row.microbatches, loss_fn=loss_sum, scale_grads=False)
        if row.schedule == "Interleaved1F1B"
        else _SCHEDULES[row.schedule](torch_stages[0], row.microbatches, loss_fn=loss_sum, scale_grads=False)
    )
    batches = Batches(corpus, config, 0, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.optimizer.learning_rate)

    def batch() -> None:
        each = batches.next()
        target = {"target": each.targets, "losses": []} if stages[-1].last else {}
        schedule.step(*((each.tokens,) if stages[0].first else ()), **target, return_outputs=False)
        nn.utils.clip_grad_norm_(model.parameters(), config.optimizer.gradient_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return model, batch


class _Part(nn.Module):
    def __init__(self, model: LanguageModel, stage: Stage) -> None:
        super().__init__()
        self.model = model
        self._stage = stage

    def forward(self, x: Tensor) -> Tensor:
        return self.model.run(self._stage, x)


def _emulate(model: LanguageModel, seconds: float) -> None:
    """Every sub-layer takes so long, and leaves the CPU free, as a GPU does."""
    if seconds:
        for number, sublayer in model.sublayers.items():
            model.sublayers[number] = _Slow(sublayer, seconds)


class _Slow(nn.Module):
    def __init__(self, sublayer: nn.Module, seconds: float) -> None:
        super().__init__()
        self.sublayer = sublayer
        self._seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        slept: Tensor = _Sleep.apply(x, self._seconds)
        return self.sublayer(slept)


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        time.sleep(2 * ctx.seconds)
        return gradient, None


def _mebibytes(field: str) -> float:
    """Of this process, as the kernel counts."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024
