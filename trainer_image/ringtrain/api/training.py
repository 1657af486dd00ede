"""One generation of training code of your own: what `ringtrain.Context` offers, and in which order."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from ringtrain.api.checkpoints import ObjectCheckpoints
from ringtrain.api.gradients import MeanGradients
from ringtrain.api.loader import Loader
from ringtrain.api.progress import Reports, RoundReporter
from ringtrain.api.saved import Misfit, Saved, Stateful
from ringtrain.checkpoint.outline import Outline, first_difference, outline
from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.meter import Meter
from ringtrain.comm.reducer import Reducer
from ringtrain.comm.replicate import replicate
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress
from ringtrain.loggers.build import add
from ringtrain.loggers.loggers import Logger, Loggers
from ringtrain.parallel.compiler import require_compiler
from ringtrain.runtime.errors import BadConfiguration
from ringtrain.runtime.output import say

if TYPE_CHECKING:
    from ringtrain.api.pipeline import Pipeline
    from ringtrain.runtime.context import Context

M = TypeVar("M", bound=nn.Module)


class Training:
    """The order is: `wrap` or `pipeline`, then `checkpoint`, then `rounds`; whatever is called out of it is refused."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._group = context.group
        self._meter = Meter()
        self._reporter = RoundReporter(context.group, self._meter)
        self.loggers = Loggers(context.session.report)
        """Of rank 0; others have none."""
        self._model: MeanGradients | Pipeline | None = None
        self._loaders: list[Loader] = []
        self._scales: list[tuple[torch.amp.GradScaler, float]] = []
        self._checkpoints: ObjectCheckpoints | None = None
        self._round = 0
        """Rounds finished."""
        self._total: int | None = None
        self._open = False
        """A round has begun, and not ended."""

    def wrap(self, model: M) -> M:
        self._refuse_another_model()
        parallelism = self._context.environment.parallelism
        if parallelism.pipeline > 1:
            raise BadConfiguration(
                f"spec.parallelism.pipeline is {parallelism.pipeline}, and wrap() takes a whole model: give its layers "
                "to context.pipeline(), or set pipeline 1"
            )
        if parallelism.sharding != "none":
            raise BadConfiguration("spec.parallelism.sharding is of the built-in trainer only: remove it")
        if parallelism.precision != "fp32" or parallelism.activation_checkpointing or parallelism.compile:
            raise BadConfiguration(
                "spec.parallelism's precision, activationCheckpointing and compile are of models that Ringtrain runs: "
                "use torch.autocast, torch.utils.checkpoint and torch.compile in train(), or context.pipeline()"
            )
        model.to(self._context.device)
        self._replicate(model.state_dict(keep_vars=True), model.buffers())
        with _refusing():
            reducer = Reducer(model, self._group, self._context.environment.communication, self._meter)
        self._model = MeanGradients(model, reducer)
        return model

    def pipeline(self, layers: Iterable[nn.Module], loss: Callable[[Tensor, Tensor], Tensor]) -> "Pipeline":
        # It imports torch's pipelines, and these the compiler, which others should not wait for.
        from ringtrain.api.pipeline import Pipeline

        self._refuse_another_model()
        environment = self._context.environment
        if environment.parallelism.sharding != "none":
            raise BadConfiguration("spec.parallelism.sharding is of the built-in trainer only: remove it")
        if environment.parallelism.precision == "fp16":
            raise BadConfiguration(
                "spec.parallelism.precision fp16 scales losses, which only the built-in trainer does: set bf16"
            )
        layers = list(layers)
        if not layers:
            raise BadConfiguration("context.pipeline() was given no layers")
        require_compiler(environment.parallelism, self._context.device)
        whole = nn.ModuleList(layers)
        self._replicate(whole.state_dict(keep_vars=True), whole.buffers())
        with _refusing():
            model = Pipeline(layers, loss, environment.parallelism, environment.communication, self._group, self._meter)
        self._model = model
        return model

    def accumulate(self) -> AbstractContextManager[None]:
        return self._averaged("accumulate").reducer.accumulate()

    def weigh(self, weight: float) -> None:
        weight = float(weight)
        if not 0 <= weight < math.inf:
            raise ValueError(f"context.weigh({weight}): a weight is a number from 0 up, such as of tokens")
        self._averaged("weigh").weigh(weight)

    def loader(
        self,
        dataset: "Dataset[Any]",
        batch_size: int,
        shuffle: bool,
        seed: int,
        workers: int,
        collate: Callable[[list[Any]], Any] | None,
    ) -> Loader:
        mesh = self._group.mesh
        self._loaders.append(
            Loader(
                dataset,
                batch_size,
                rank=mesh.place(self._group.rank)[0],
                world_size=mesh.data,
                device=self._context.device,
                shuffle=shuffle,
                seed=seed,
                workers=workers,
                collate=collate,
                # A worker that outlives its rank for a moment must not hold the rank's line to the agent open.
                worker_started=lambda _: self._context.session.close(),
                alike=mesh.pipeline > 1,
            )
        )
        return self._loaders[-1]

    def checkpoint(self, objects: dict[str, Stateful]) -> None:
        if self._checkpoints is not None:
            raise BadConfiguration("context.checkpoint() was called before: give everything to one call")
        if self._total is not None:
            raise BadConfiguration("context.checkpoint() comes before context.rounds()")
        try:
            saved = Saved(objects)
        except Misfit as error:
            raise BadConfiguration(f"context.checkpoint(): {error}") from error
        scalers = [value for value in objects.values() if isinstance(value, torch.amp.GradScaler)]
        if scalers and self._group.mesh.pipeline > 1:
            raise BadConfiguration(
                "a GradScaler sees only the overflow of this rank's layers: set spec.parallelism.precision bf16 in its "
                "place, or pipeline 1"
            )
        context = self._context
        self._checkpoints = ObjectCheckpoints(
            saved,
            self._model.reducer if self._model is not None else None,
            context.checkpoints,
            context.generation,
            context.group,
        )
        self._checkpoints.restore()
        self._round, self._reporter.loss = self._checkpoints.round, self._checkpoints.loss
        self._scales = [(scaler, scaler.get_scale()) for scaler in scalers]

    def rounds(self, total: int) -> Iterator[int]:
        if self._total is not None:
            raise BadConfiguration("context.rounds() was called before: one loop goes through all rounds of a job")
        self._total = total
        start = Progress(round=self._round, total_rounds=total, loss=self._reporter.loss)
        self._context.beat(Phase.COMPILING, start)
        while self._round < total:
            self._begin(self._round + 1)
            yield self._round + 1
            self._end(total)

    def log_to(self, logger: Logger | str) -> None:
        if self._context.rank != 0:
            return
        if isinstance(logger, str):
            add(self.loggers, logger, self._context.environment.checkpoint)
        else:
            self.loggers.add(getattr(logger, "__name__", type(logger).__name__), logger)

    def report(self, reports: Reports) -> None:
        self._reporter.reports = self._reporter.reports.then(reports)

    def finish(self) -> None:
        """All rounds are trained, or the loop was left before: saves what is not saved yet."""
        if self._total is None:
            return
        if self._open and (self._model is None or self._model.reduced):
            self._end(self._total)
        if self._checkpoints is not None:
            self._checkpoints.finish(self._round, self._reporter.loss)
            say(self._group.rank, f"final digest {self._checkpoints.model_digest()}")

    def close(self) -> None:
        """Lets go of the generation; waits for no peer."""
        self.loggers.close()
        for loader in self._loaders:
            loader.close()
        if self._model is not None:
            self._model.close()
        if self._checkpoints is not None:
            self._checkpoints.close()
        self._model = self._checkpoints = None
        self._loaders.clear()
        self._scales.clear()

    def _begin(self, round: int) -> None:
        # A hang from here on is one of the round, not of the checkpoint before it.
        self._meter.begin_round()
        self._context.round_started(round)
        if self._model is not None:
            self._model.begin_round(round)
        self._open = True

    def _end(self, total: int) -> None:
        round = self._round + 1
        if self._model is not None and not self._model.reduced:
            raise BadConfiguration(
                f"round {round} ended without the mean of gradients: every rank makes a backward pass outside of "
                "context.accumulate() in every round, or the others wait for it"
            )
        self._refuse_unsummed()
        self._rescale_residuals()
        codec = self._model.reducer.codec if self._model is not None else None
        checkpoints = self._checkpoints
        own = checkpoints.votes() if checkpoints is not None else Votes()
        progress, votes = self._reporter.end_round(round, total, codec, own)
        self._round, self._open = round, False
        if checkpoints is not None:
            progress = progress.model_copy(update={"checkpoints": checkpoints.totals})
        with checkpoints.ending(round, self._reporter.loss, votes) if checkpoints is not None else nullcontext():
            self._context.beat(Phase.TRAINING, progress)
            self.loggers.log(progress)

    def _refuse_unsummed(self) -> None:
        name = self._model.unsummed() if self._model is not None else None
        if name is not None:
            raise BadConfiguration(
                f"parameter {name} gets gradients, but was not there or was frozen when wrap() or pipeline() was "
                "called, so every rank would move it by its own: what is to train at any time gets gradients then, and "
                "may be frozen by requires_grad_(False) after"
            )

    def _rescale_residuals(self) -> None:
        """What encoding lost is as large as the gradients were: it follows their scale."""
        for place, (scaler, before) in enumerate(self._scales):
            now = scaler.get_scale()
            if now != before and self._model is not None:
                # A scale shrinks when gradients overflowed, and what was lost of these is no gradient either.
                self._model.reducer.rescale_residuals(now / before if now > before else 0.0)
            self._scales[place] = (scaler, now)

    def _replicate(self, state: dict[str, Any], buffers: Iterator[Tensor]) -> None:
        """All ranks start with rank 0's values."""
        tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        self._refuse_other_models(outline(tensors))
        # Buffers that no checkpoint holds too.
        replicate(self._group, {id(tensor): tensor for tensor in (*tensors.values(), *buffers)}.values())

    def _refuse_other_models(self, own: Outline) -> None:
        first, *others = self._group.all_gather_json(own)
        for rank, other in enumerate(others, start=1):
            difference = first_difference(first, other)
            if difference is not None:
                name, here, there = difference
                raise BadConfiguration(
                    f"ranks have other models: tensor {name} is {here} on rank 0, but {there} on rank {rank}"
                )

    def _refuse_another_model(self) -> None:
        if self._model is not None:
            raise BadConfiguration(
                "a second model: put both into one nn.ModuleDict and wrap that, so that all ranks sum their gradients "
                "in the same order"
            )
        if self._checkpoints is not None or self._total is not None:
            raise BadConfiguration("wrap() and pipeline() come before context.checkpoint() and context.rounds()")

    def _averaged(self, call: str) -> "MeanGradients | Pipeline":
        if self._model is None:
            raise BadConfiguration(f"context.{call}() is about gradients: call wrap() or pipeline() before")
        return self._model


@contextmanager
def _refusing() -> Iterator[None]:
    """What is wrong with a model can never work, so the job is not retried."""
    try:
        yield
    except ValueError as error:
        raise BadConfiguration(str(error)) from error
