"""torch.distributed.checkpoint, as its documentation shows it."""

import multiprocessing
import time
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, AsyncSaveResponse, async_save, save

from checkpoint_results import DCP_ASYNC, DCP_ASYNC_STAGING, DCP_PROCESS, DCP_SAVE, EVERY
from checkpoint_way import Way
from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.group import Group
from ringtrain.train.trainer import Trainer


@dataclass(frozen=True, slots=True)
class Options:
    asynchronous: bool = True
    staging: bool = False
    """On a thread of its own, which the next step of the optimizer waits for."""
    process: bool = False
    """Another process writes."""


OPTIONS = {
    DCP_SAVE: Options(asynchronous=False),
    DCP_ASYNC: Options(),
    DCP_ASYNC_STAGING: Options(staging=True),
    DCP_PROCESS: Options(process=True),
}


class Dcp(Way):
    """Each rank writes its share. One save at a time: the next one waits for it."""

    def __init__(self, trainer: Trainer, group: Group, root: Path, options: Options) -> None:
        super().__init__(trainer, group, root)
        # Saves run beside the training, and must not mix with its collectives.
        self._processes = dist.new_group(backend="gloo")
        self._options = options
        # One for all saves, so that its memory is used again. Pinning and copies that do not block need a GPU.
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=False,
                use_shared_memory=options.process,
                use_async_staging=options.staging,
                use_non_blocking_copy=False,
            )
        )
        self._upload: Future[Any] | None = None
        self._staging: Future[None] | None = None

    def before_step(self) -> None:
        if self._staging is not None:
            self._staging.result()
            self._staging = None

    def end_round(self, round: int, votes: Votes) -> None:  # noqa: ARG002
        if round % EVERY:
            return
        if self._upload is not None:
            self._upload.result()
        self.started[round] = time.monotonic()
        state, directory = self._trainer.state().replicated, self._directory(round)
        if not self._options.asynchronous:
            save(state, checkpoint_id=directory, process_group=self._processes)
            self._flushed(round)
            return
        answer = async_save(
            state,
            checkpoint_id=directory,
            process_group=self._processes,
            async_stager=self._stager,
            async_checkpointer_type=(
                AsyncCheckpointerType.PROCESS if self._options.process else AsyncCheckpointerType.THREAD
            ),
        )
        if isinstance(answer, AsyncSaveResponse):
            self._staging, self._upload = answer.staging_completion, answer.upload_completion
        else:
            self._upload = answer
        self._upload.add_done_callback(partial(self._ended, round))

    def drain(self) -> None:
        if self._upload is not None:
            self._upload.result()
        super().drain()

    def restore(self, round: int) -> None:
        # In place: what it is given are the living tensors.
        load(self._trainer.state().replicated, checkpoint_id=self._directory(round), process_group=self._processes)

    def close(self) -> None:
        for process in multiprocessing.active_children():
            process.terminate()
            process.join()

    def _ended(self, round: int, upload: Future[Any]) -> None:
        if upload.exception() is None:
            self._flushed(round)
