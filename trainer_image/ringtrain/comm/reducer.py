"""Sums gradients over all ranks while the backward pass still runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

import torch
from torch import Tensor, nn

from ringtrain.comm.bucket_sum import load_residuals, rescale_residuals, residuals
from ringtrain.comm.buckets import layout, parameter_infos
from ringtrain.comm.group import Group
from ringtrain.comm.local import as_gradient, in_shape_of, local
from ringtrain.comm.meter import Meter
from ringtrain.comm.summation import Summation
from ringtrain.contract.communication import CommunicationConfig


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all ranks of one round."""

    weight: float
    """Of what each rank gave as its weight: tokens, for language models."""
    loss: float
    others: tuple[float, ...] = ()
    """Of what else each rank gave."""


class _Slot:
    """A parameter and the part of a bucket that takes its gradient."""

    __slots__ = ("bucket", "collected", "gradient", "name", "parameter", "passes", "view")

    def __init__(self, name: str, parameter: nn.Parameter, bucket: int, view: Tensor) -> None:
        self.name = name
        self.parameter = parameter
        self.bucket = bucket
        self.view = view
        self.gradient = as_gradient(view, parameter)
        self.reset(1)

    def reset(self, passes: int) -> None:
        """The gradient is complete after so many backward passes."""
        self.passes = passes
        self.collected = False

    @torch.no_grad()  # With create_graph=True, gradients have gradients, but buckets must not.
    def collect(self) -> None:
        """Moves the gradient into the bucket, and makes the bucket's memory the gradient."""
        gradient = self.parameter.grad
        if gradient is None:
            self.view.zero_()
        elif gradient is not self.gradient:
            if gradient.layout is not torch.strided:
                raise ValueError(
                    f"the gradient of {self.name} is sparse, and only dense ones can be summed: build its layer with "
                    "sparse=False"
                )
            self.view.copy_(local(gradient))
        # What was frozen since has none, and so optimizers pass over it.
        if gradient is not None or self.parameter.requires_grad:
            self.parameter.grad = self.gradient
        self.collected = True


class Reducer:
    """Weighted mean of gradients over the ranks of one group, started bucket by bucket during backward.

    A round: `begin_round`, backward passes, all but the last inside `accumulate()`, then `finish`. A pipeline makes
    several passes one after another as its last: `begin_round` is told how many. Losses are sums:
    `finish` divides the sum over all ranks by the total weight, so a rank with more tokens counts for more, as it
    should.

    A context manager, which closes it. All ranks start buckets in the order of the layout, whatever order their
    gradients become ready in. After an interruption the reducer is closed, and never used again: an abandoned reduction
    may still write its buckets.
    """

    def __init__(self, model: nn.Module, group: Group, config: CommunicationConfig, meter: Meter | None = None) -> None:
        """Every rank's model must have the same parameters. Connects: raises PeerLost, or what polling raises.

        Raises ValueError for parameters of other types than float32, bfloat16 and float16, and for whole ones where the
        ranks of a machine share them out: those of one machine would not be summed.
        """
        infos = parameter_infos(model)
        if group.mesh.shards > 1 and any(info.rows is None for info in infos):
            raise ValueError(
                "parallelism.sharding is machine, but parameters of the model are whole: set sharding none"
            )
        self._group = group
        self._config = config
        self._meter = meter or Meter()
        self.layout = layout(infos, int(config.bucket_mebibytes * 2**20))
        self._summation = Summation(group, config, self._meter)
        self._sums = [self._summation.bucket_sum(bucket, group.device) for bucket in self.layout]
        parameters = dict(model.named_parameters())
        self._slots = [
            _Slot(
                part.name,
                parameters[part.name],
                index,
                in_shape_of(local(parameters[part.name]), self._sums[index].part(part)),
            )
            for index, bucket in enumerate(self.layout)
            for part in bucket.slices
        ]
        self._hooks = [
            slot.parameter.register_post_accumulate_grad_hook(partial(self._hook, slot))  # type: ignore[no-untyped-call]
            for slot in self._slots
        ]
        self.accumulating = False
        """Inside of `accumulate()`."""
        self.begin_round(1)

    @property
    def codec(self) -> str:
        """Of large tensors between machines in the last round that was begun, such as zfp-4."""
        return self._summation.codec

    def _reset(self) -> None:
        self._missing = [len(bucket.slices) for bucket in self.layout]
        for slot in self._slots:
            slot.reset(self._passes)

    def begin_round(self, round: int, passes: int = 1) -> None:
        """Before the first backward pass of `round`, the first of which is 1. Gradients are complete after so many
        backward passes outside of `accumulate()`."""
        self._summation.begin_round(round)
        self._passes = passes
        self._reset()

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Around every backward pass of a round but the last: gradients add up in `p.grad`, nothing is sent."""
        self.accumulating = True
        try:
            yield
        finally:
            self.accumulating = False

    def finish(self, weight: float, loss: float = 0.0, others: Sequence[float] = ()) -> Totals:
        """Waits for the round's reductions; then every `p.grad` is the sum over all ranks / the total weight.

        `weight` and `loss` are this rank's, of the whole round; their sums over all ranks are returned, and those of
        `others`, of which all ranks give equally many. A parameter that was not used counts as zero; one that was
        frozen on all ranks since the reducer was made, and has no gradient, gets none. If no rank had any weight,
        gradients are the plain sums. Raises PeerLost, Disagreement, or what the group's poll raises; the reducer must
        then be closed.
        """
        for slot in self._slots:
            if not slot.collected:
                slot.collect()
                self._missing[slot.bucket] -= 1
        self._summation.wait_for_backward()
        with self._meter.exposed():
            self._start_ready()
            totals = torch.tensor([weight, loss, *others], dtype=torch.float64)
            last = self._group.start_all_reduce(totals)
            self._summation.wait()
            self._group.wait(last)
        weights, losses, *sums = totals.tolist()
        total = Totals(weights, losses, tuple(sums))
        for each in self._sums:
            each.divide(total.weight)
        self._reset()
        return total

    def residuals(self) -> dict[str, Tensor]:
        """What encoding has lost so far, by the place of its bucket and segment; the living tensors, float32."""
        return residuals(self._sums)

    def load_residuals(self, saved: Mapping[str, Tensor]) -> bool:
        """Goes on with what `residuals` gave. False when they are of another layout, and nothing is taken."""
        return load_residuals(self._sums, saved)

    def rescale_residuals(self, factor: float) -> None:
        """Losses, and so gradients, are `factor` times as large from now on: call it when a loss scale changes.

        0 forgets what was lost: call it so when a step was skipped because gradients were not finite.
        """
        rescale_residuals(self._sums, factor)

    def close(self) -> None:
        """Detaches from the model. Gradients that lie in the buckets are dropped with them."""
        self._summation.close()
        for hook in self._hooks:
            hook.remove()
        for slot in self._slots:
            if slot.parameter.grad is slot.gradient:
                slot.parameter.grad = None
        self._hooks.clear()
        self._slots.clear()
        self._sums.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hook(self, slot: _Slot, _parameter: Tensor) -> None:
        """A backward pass has finished with a parameter's gradient."""
        if self.accumulating:
            return
        if slot.collected:
            raise RuntimeError(
                f"the gradient of {slot.name} arrived once more after the round's last backward pass: put all backward "
                "passes but the last into Reducer.accumulate(), and call finish() after the last"
            )
        slot.passes -= 1
        if slot.passes:
            return
        slot.collect()
        self._missing[slot.bucket] -= 1
        if self._config.overlap:
            self._start_ready()

    def _start_ready(self) -> None:
        while (place := self._summation.started) < len(self._sums) and self._missing[place] == 0:
            self._summation.start(self._sums[place])
