"""Your model as a pipeline: each rank holds some of its layers."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ringtrain.api.gradients import unsummed
from ringtrain.api.saved import Part
from ringtrain.checkpoint.outline import outline
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter
from ringtrain.comm.reducer import Reducer
from ringtrain.comm.verify import state_digest
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.models.stage import Stage, of_rank
from ringtrain.parallel.layers import StageOfLayers, cut_layers, pieces
from ringtrain.parallel.passes import Precision
from ringtrain.parallel.schedule import Loss, Schedule
from ringtrain.runtime.errors import BadConfiguration
from ringtrain.train.clip import clip


class Pipeline(Part):
    """This rank's layers. Parameters have the names `NUMBER.NAME` that they have in the whole list."""

    def __init__(
        self,
        layers: Sequence[nn.Module],
        loss: Loss,
        parallelism: ParallelismConfig,
        communication: CommunicationConfig,
        group: Group,
        meter: Meter,
    ) -> None:
        """All ranks give all layers; those of other ranks are let go. Raises ValueError for what cannot be cut or
        summed, and what connecting does."""
        super().__init__()
        self.whole = outline(
            {f"{number}.{name}": t for number, layer in enumerate(layers) for name, t in layer.state_dict().items()}
        )
        stages = cut_layers(layers, parallelism)
        _, place = group.mesh.place(group.rank)
        self._stages = tuple(of_rank(stages, place, parallelism.pipeline))
        for number in (number for stage in self._stages for number in range(stage.begin, stage.end)):
            self.add_module(str(number), layers[number])
            if parallelism.compile:
                layers[number].compile()
        self.to(group.device)
        self.reduced = False
        """Since the round began, a step has ended with the mean of the gradients."""
        self._parallelism = parallelism
        # A function, so that a module for a loss is no part of the model.
        self._loss: Loss = lambda outputs, targets: _checked(loss(outputs, targets))
        self._group = group
        self._precision = Precision(parallelism.precision, group.device)
        self._passes: Callable[[Tensor, Tensor, bool], list[Tensor]] | None = None
        self._shape: tuple[torch.Size, torch.dtype] | None = None
        self._weight: float | None = None
        self._round = 0
        self._summed = frozenset(parameter for parameter in self.parameters() if parameter.requires_grad)
        self.reducer = Reducer(self, group, communication, meter)

    @property
    def last(self) -> bool:
        """Whether this rank has the last layer, and so the losses."""
        return any(stage.last for stage in self._stages)

    def step(self, inputs: Tensor, targets: Tensor) -> float | None:
        """Forward and backward passes of a batch; then every gradient is the mean over micro-batches and data-parallel
        ranks, unless this is inside of `context.accumulate()`. All ranks of a pipeline give the same batch; batches
        have one shape.

        Returns the mean loss of the micro-batches on the rank with the last layer, elsewhere None. After
        `context.weigh(n)`, losses are sums over what n counts, and this returns their sum / n.
        """
        run = self._prepared(inputs, targets)
        if self.reducer.accumulating:
            return self._mean(run(inputs, targets, True))
        self.reducer.begin_round(self._round, self._micro_batches)
        losses = run(inputs, targets, True)
        # Once in a pipeline.
        self.reducer.finish(self._counted if self.last else 0.0)
        loss = self._mean(losses)
        self._weight, self.reduced = None, True
        return loss

    @torch.no_grad()
    def evaluate(self, inputs: Tensor, targets: Tensor) -> float | None:
        """The mean loss of the micro-batches, as `step` returns it; forward passes alone."""
        return self._mean(self._prepared(inputs, targets)(inputs, targets, False))

    def clip_gradients(self, maximum: float) -> float:
        """torch.nn.utils.clip_grad_norm_ over the whole model: all ranks of the pipeline call it. Returns the norm."""
        gradients = {name: p.grad for name, p in self.named_parameters() if p.grad is not None}
        peers = self._group.pipe() if self._parallelism.pipeline > 1 else None
        return clip(gradients, frozenset(), maximum, peers, self._group.device)

    def begin_round(self, round: int) -> None:
        self._round = round
        self.reduced = False

    def weigh(self, weight: float) -> None:
        self._weight = weight

    def unsummed(self) -> str | None:
        """The name of a parameter that gets gradients of this rank alone, if there is one."""
        return unsummed(self, self._summed)

    def close(self) -> None:
        self._passes = None
        self.reducer.close()

    def _prepared(self, inputs: Tensor, targets: Tensor) -> Callable[[Tensor, Tensor, bool], list[Tensor]]:
        shape = (inputs.shape, inputs.dtype)
        if self._passes is None or self._shape is None:
            try:
                self._micro_batches = self._parallelism.microbatches_of(len(inputs), named="a batch of")
            except ValueError as error:
                raise BadConfiguration(str(error)) from error
            self._passes, self._shape = self._connected(inputs, targets), shape
        elif shape != self._shape:
            raise ValueError(
                f"a batch of shape {tuple(inputs.shape)}, {inputs.dtype}, but the pipeline's are "
                f"{tuple(self._shape[0])}, {self._shape[1]}: what goes through a pipeline never changes its shape"
            )
        return self._passes

    def _compare_batches(self, inputs: Tensor, targets: Tensor) -> None:
        """Once, so that nobody trains the outputs of one batch on the targets of another."""
        digests = self._group.all_gather_json(state_digest({"inputs": inputs, "targets": targets}))
        if len({digests[rank] for rank in self._group.mesh.copy_ranks(self._group.rank)}) > 1:
            raise BadConfiguration(
                "the ranks of a pipeline have other batches: take them from context.loader(), or from a sampler that "
                "counts pipelines, not ranks (context.group.mesh.data of them, this one's number is "
                "context.group.mesh.place(context.rank)[0])"
            )

    def _connected(self, inputs: Tensor, targets: Tensor) -> Callable[[Tensor, Tensor, bool], list[Tensor]]:
        modules = {stage: self._module(stage) for stage in self._stages}
        if self._parallelism.pipeline == 1:
            (module,) = modules.values()
            return lambda inputs, targets, backward: [self._alone(module, inputs, targets, backward)]
        self._compare_batches(inputs, targets)
        micro_batch = inputs[: len(inputs) // self._micro_batches]
        found = pieces(modules, self._parallelism.stages, micro_batch, self._group)
        return Schedule(found, self._parallelism, self._micro_batches, self._loss, self._group).run

    def _module(self, stage: Stage) -> nn.Module:
        layers = [self.get_submodule(str(number)) for number in range(stage.begin, stage.end)]
        return StageOfLayers(layers, self._precision, self._parallelism.activation_checkpointing)

    def _alone(self, module: nn.Module, inputs: Tensor, targets: Tensor, backward: bool) -> Tensor:
        loss: Tensor = self._loss(module(inputs), targets)
        if backward:
            torch.autograd.backward(loss)
        return loss.detach()

    @property
    def _counted(self) -> float:
        """What the losses of a batch are to be divided by."""
        return self._micro_batches if self._weight is None else self._weight

    def _mean(self, losses: Sequence[Tensor]) -> float | None:
        if not self.last:
            return None
        return torch.stack([loss.detach() for loss in losses]).sum().item() / (self._counted or 1.0)


def _checked(loss: Tensor) -> Tensor:
    """Raises BadConfiguration for what torch's pipelines would take, and derive nothing from."""
    if loss.dim():
        raise BadConfiguration(f"loss() gives a tensor of shape {list(loss.shape)}: it gives one number")
    if torch.is_grad_enabled() and not loss.requires_grad:
        raise BadConfiguration("loss() gives a number without a gradient: is something detached, or all of it frozen?")
    return loss
