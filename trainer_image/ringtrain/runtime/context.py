"""What training code is given in each generation."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from ringtrain.api.loader import Loader
from ringtrain.api.progress import Reports
from ringtrain.api.saved import Stateful
from ringtrain.api.training import Training
from ringtrain.checkpoint.checkpoints import Checkpoints
from ringtrain.comm.group import Group
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress
from ringtrain.loggers.loggers import Logger
from ringtrain.runtime import faults
from ringtrain.runtime.session import Session

if TYPE_CHECKING:
    from ringtrain.api.pipeline import Pipeline

M = TypeVar("M", bound=nn.Module)


@dataclass(slots=True, kw_only=True)
class Context:
    """One generation, as one rank sees it. All of it but `state` is of this generation only: keep none of it.

    All ranks make the same calls in the same order: most of them wait for the others. They raise BadConfiguration for
    what can never work, and what is for `ringtrain.run` to catch: PeerLost, Interrupted, Preempted.
    """

    session: Session
    group: Group
    generation: Generation
    rank: int
    world_size: int
    local_rank: int
    device: torch.device
    environment: ReplicaEnvironment
    checkpoints: Checkpoints | None = None
    """None when the job has no place for any."""
    state: dict[str, Any] = field(default_factory=dict)
    """Yours; survives from one generation to the next in the same process. Must not hold the group."""
    round: int | None = None
    """The round that was started last; None before the first of this generation."""
    training: Training = field(init=False, repr=False)
    """What is behind the calls below."""

    def __post_init__(self) -> None:
        self.training = Training(self)

    def wrap(self, model: M) -> M:
        """`model`, on this rank's device, with rank 0's values; from now on every `backward()` of it ends with the mean
        of all ranks' gradients in `p.grad`. Once in a generation."""
        return self.training.wrap(model)

    def pipeline(self, layers: Iterable[nn.Module], loss: Callable[[Tensor, Tensor], Tensor]) -> "Pipeline":
        """In place of `wrap`: this rank's part of a model that is given as layers, applied one after another, each of
        which takes one tensor and gives one. `loss(outputs, targets)` is a mean, or a sum with `weigh`.

        spec.parallelism says into how many stages, and where, the model is cut; with pipeline 1, it is not. Every rank
        builds all layers, and lets go of those of others: keep no list of them.
        """
        return self.training.pipeline(layers, loss)

    def accumulate(self) -> AbstractContextManager[None]:
        """`with context.accumulate():` around all backward passes (or steps of a pipeline) of a round but the last:
        gradients add up, and nothing is sent."""
        return self.training.accumulate()

    def weigh(self, weight: float) -> None:
        """Before a round's last backward pass: how much this rank's gradients count for, such as its tokens. They are
        those of a SUM of losses; the sum over all ranks is divided by all weights. Without it: of means, which count 1.
        """
        self.training.weigh(weight)

    def loader(
        self,
        dataset: "Dataset[Any]",
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        workers: int = 0,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> Loader:
        """This rank's batches of `dataset` (with __len__ and __getitem__), `batch_size` samples each, on its device,
        for ever; all ranks of a pipeline get the same. `workers` and `collate` are those of torch's DataLoader."""
        return self.training.loader(dataset, batch_size, shuffle, seed, workers, collate)

    def checkpoint(self, **objects: Stateful) -> None:
        """Goes back to the newest checkpoint, if there is one; `rounds` saves others. `objects` is everything with a
        state: modules, optimizers, schedulers, GradScalers, loaders. Once, after they were made and before `rounds`."""
        self.training.checkpoint(objects)

    def rounds(self, total: int) -> Iterator[int]:
        """The numbers of the rounds that are left of 1..`total`. At each end: a heartbeat, progress, and a checkpoint
        every spec.checkpoint.every rounds and after the last. Leave it by `break` on all ranks in the same round."""
        return self.training.rounds(total)

    def report(
        self, *, loss: float | None = None, evaluation_loss: float | None = None, tokens: float | None = None
    ) -> None:
        """What this rank has to tell of the round; `rounds` makes means of losses over the ranks that told one, and
        tokens per second of the whole job. It costs nothing, and not all ranks need to call it."""
        self.training.report(Reports(loss=loss, evaluation_loss=evaluation_loss, tokens=tokens))

    def log_to(self, logger: Logger | str) -> None:
        """Rank 0 tells `logger` the numbers of every round that `rounds` finishes: a function of them, by name, and the
        round, such as `lambda values, round: run.log(values, step=round)`; it is called in a thread of its own.
        "tensorboard" writes event files to the checkpoint volume. Other ranks do nothing. In each generation anew."""
        self.training.log_to(logger)

    def round_started(self, round: int) -> None:
        """Says that training of `round` begins (the first is 1): a heartbeat, and where injected faults happen.
        `rounds` does it.

        Raises Interrupted or Preempted, like `beat`.
        """
        self.beat(Phase.COMPILING if self.round is None else Phase.TRAINING)
        self.round = round
        fault = faults.due(self.environment.faults, rank=self.rank, round=round, epoch=self.generation.epoch)
        if fault is not None:
            faults.commit(fault)

    def beat(self, phase: Phase = Phase.TRAINING, progress: Progress | None = None) -> None:
        """A heartbeat: call it at least as often as the phase's time-out asks. Raises Interrupted or Preempted, which
        are for `ringtrain.run` to catch."""
        self.session.beat(phase, progress)
