"""Sums gradients over all ranks while the backward pass still runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

import torch
from torch import Tensor, nn

from ringtrain.comm.bucket_sum import BucketSum
from ringtrain.comm.buckets import layout, parameter_infos
from ringtrain.comm.choice import fabric_plan
from ringtrain.comm.codec.build import build_codecs, compile_ahead
from ringtrain.comm.engine import Ticket
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter
from ringtrain.comm.polling import poll_until
from ringtrain.comm.verify import agree_on_checksums
from ringtrain.contract.communication import CommunicationConfig


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all ranks of one round."""

    weight: float
    """Of what each rank gave as its weight: tokens, for language models."""
    loss: float


class _Slot:
    """A parameter and the part of a bucket that takes its gradient."""

    __slots__ = ("arrived", "bucket", "name", "parameter", "view")

    def __init__(self, name: str, parameter: nn.Parameter, bucket: int, view: Tensor) -> None:
        self.name = name
        self.parameter = parameter
        self.bucket = bucket
        self.view = view
        self.arrived = False

    def collect(self) -> None:
        """Moves the gradient into the bucket, and makes the bucket's memory the gradient."""
        gradient = self.parameter.grad
        if gradient is None:
            self.view.zero_()
        elif gradient.data_ptr() != self.view.data_ptr():
            self.view.copy_(gradient)
        self.parameter.grad = self.view
        self.arrived = True


class Reducer:
    """Weighted mean of gradients over the ranks of one group, started bucket by bucket during backward.

    A round: `begin_round`, backward passes, all but the last inside `accumulate()`, then `finish`. Losses are sums:
    `finish` divides the sum over all ranks by the total weight, so a rank with more tokens counts for more, as it
    should.

    A context manager, which closes it. All ranks start buckets in the order of the layout, whatever order their
    gradients become ready in. After an interruption the reducer is closed, and never used again: an abandoned reduction
    may still write its buckets.
    """

    def __init__(self, model: nn.Module, group: Group, config: CommunicationConfig, meter: Meter | None = None) -> None:
        """Every rank's model must have the same parameters. Connects: raises PeerLost, or what polling raises.

        Raises ValueError for parameters of other types than float32, bfloat16 and float16.
        """
        self._group = group
        self._config = config
        self._meter = meter or Meter()
        self._codecs = build_codecs(config)
        self.layout = layout(parameter_infos(model), int(config.bucket_mebibytes * 2**20))
        topology = group.topology
        self._sums = [BucketSum(bucket, topology, self._codecs, group.device) for bucket in self.layout]
        parameters = dict(model.named_parameters())
        self._slots = [
            _Slot(
                part.name,
                parameters[part.name],
                index,
                self._sums[index].part(part).view_as(parameters[part.name]),
            )
            for index, bucket in enumerate(self.layout)
            for part in bucket.slices
        ]
        if config.codec == "zfp":
            compile_ahead()
        self._engine = group.start_engine(fabric_plan(config, topology, group.device), self._meter)
        self._hooks = [
            slot.parameter.register_post_accumulate_grad_hook(partial(self._hook, slot))  # type: ignore[no-untyped-call]
            for slot in self._slots
        ]
        self._accumulating = False
        self._compressing = config.warmup_rounds == 0
        self._reset()

    @property
    def codec(self) -> str:
        """Of large tensors between machines after the warm-up, such as zfp-4."""
        return self._codecs.main.name

    def _reset(self) -> None:
        self._running: list[Ticket] = []
        self._missing = [len(bucket.slices) for bucket in self.layout]
        for slot in self._slots:
            slot.arrived = False

    def begin_round(self, round: int) -> None:
        """Before the first backward pass of `round`, the first of which is 1."""
        self._compressing = round > self._config.warmup_rounds

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Around every backward pass of a round but the last: gradients add up in `p.grad`, nothing is sent."""
        self._accumulating = True
        try:
            yield
        finally:
            self._accumulating = False

    def finish(self, weight: float, loss: float = 0.0) -> Totals:
        """Waits for the round's reductions; then every `p.grad` is the sum over all ranks / the total weight.

        `weight` and `loss` are this rank's, of the whole round; their sums over all ranks are returned. A parameter
        that was not used counts as zero. If no rank had any weight, gradients are the plain sums. Raises PeerLost,
        Disagreement, or what the group's poll raises; the reducer must then be closed.
        """
        for slot in self._slots:
            if not slot.arrived:
                slot.collect()
                self._missing[slot.bucket] -= 1
        self._wait_for_backward()
        with self._meter.exposed():
            self._start_ready()
            totals = torch.tensor([weight, loss], dtype=torch.float64)
            last = self._group.start_all_reduce(totals)
            for ticket in self._running:
                ticket.wait(self._group.poll)
            self._group.wait(last)
        if self._config.verify:
            agree_on_checksums(self._group, [each.buffer for each in self._sums])
        total = Totals(*totals.tolist())
        for each in self._sums:
            each.divide(total.weight)
        self._reset()
        return total

    def residuals(self) -> dict[str, Tensor]:
        """What encoding has lost so far, by the place of its bucket and segment; the living tensors, float32."""
        return {
            f"{index}.{number}": residual
            for index, each in enumerate(self._sums)
            for number, residual in enumerate(each.residuals)
        }

    def load_residuals(self, saved: Mapping[str, Tensor]) -> bool:
        """Goes on with what `residuals` gave. False when they are of another layout, and nothing is taken."""
        own = self.residuals()
        if {name: t.shape for name, t in own.items()} != {name: t.shape for name, t in saved.items()}:
            return False
        for name, residual in own.items():
            residual.copy_(saved[name])
        return True

    def rescale_residuals(self, factor: float) -> None:
        """Losses, and so gradients, are `factor` times as large from now on: call it when a loss scale changes.

        0 forgets what was lost: call it so when a step was skipped because gradients were not finite.
        """
        for residual in self.residuals().values():
            residual.mul_(factor)

    def close(self) -> None:
        """Detaches from the model. Gradients that lie in the buckets are dropped with them."""
        self._engine.close()
        for hook in self._hooks:
            hook.remove()
        for slot in self._slots:
            if slot.parameter.grad is slot.view:
                slot.parameter.grad = None
        self._hooks.clear()
        self._slots.clear()
        self._sums.clear()
        self._running.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hook(self, slot: _Slot, _parameter: Tensor) -> None:
        """A backward pass has finished with a parameter's gradient."""
        if self._accumulating:
            return
        if slot.arrived:
            raise RuntimeError(
                f"the gradient of {slot.name} arrived twice in one round: put all backward passes but the last into "
                "Reducer.accumulate(), and call finish() after the last"
            )
        slot.collect()
        self._missing[slot.bucket] -= 1
        if self._config.overlap:
            self._start_ready()

    def _start_ready(self) -> None:
        while len(self._running) < len(self._sums) and self._missing[len(self._running)] == 0:
            self._running.append(self._engine.submit(self._sums[len(self._running)].tasks(self._compressing)))

    def _wait_for_backward(self) -> None:
        """On a GPU the backward pass still runs when its last hook has: waiting for it is not communication."""
        if self._group.device.type == "cuda":
            backward = torch.cuda.Event()  # type: ignore[no-untyped-call]
            backward.record()
            poll_until(backward.query, self._group.poll)
