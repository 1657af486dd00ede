"""Sums gradients over all ranks while the backward pass still runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ringtrain.comm.buckets import layout, parameter_infos
from ringtrain.comm.group import Collective, Group
from ringtrain.comm.meter import Meter, ring_bytes
from ringtrain.comm.polling import poll_until


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

    A round: backward passes, all but the last inside `accumulate()`, then `finish`. Losses are sums: `finish`
    divides the sum over all ranks by the total weight, so a rank with more tokens counts for more, as it should.

    All ranks start buckets in the order of the layout, whatever order their gradients become ready in. After an
    interruption the reducer is closed, and never used again: an abandoned reduction may still write its buckets.
    """

    def __init__(self, model: nn.Module, group: Group, bucket_bytes: int, meter: Meter) -> None:
        """Every rank's model must have the same parameters."""
        self._group = group
        self._meter = meter
        self.layout = layout(parameter_infos(model), bucket_bytes)
        parameters = dict(model.named_parameters())
        self._buffers = [torch.zeros(bucket.numel, dtype=bucket.dtype, device=group.device) for bucket in self.layout]
        self._slots = [
            _Slot(
                part.name,
                parameters[part.name],
                index,
                self._buffers[index][part.offset : part.offset + part.numel].view_as(parameters[part.name]),
            )
            for index, bucket in enumerate(self.layout)
            for part in bucket.slices
        ]
        self._hooks = [
            slot.parameter.register_post_accumulate_grad_hook(partial(self._hook, slot))  # type: ignore[no-untyped-call]
            for slot in self._slots
        ]
        self._accumulating = False
        self._reset()

    def _reset(self) -> None:
        self._missing = [len(bucket.slices) for bucket in self.layout]
        self._running: list[Collective] = []
        self._started = self._ended = 0
        for slot in self._slots:
            slot.arrived = False

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
        that was not used counts as zero. If no rank had any weight, gradients are the plain sums. Raises PeerLost, or
        what the group's poll raises; the reducer must then be closed.
        """
        for slot in self._slots:
            if not slot.arrived:
                slot.collect()
                self._missing[slot.bucket] -= 1
        self._start_ready()
        totals = torch.tensor([weight, loss], dtype=torch.float64)
        last = self._group.start_all_reduce(totals)
        self._wait_for_backward()
        with self._meter.exposed():
            for collective in self._running[self._ended :]:
                self._group.wait(collective)
                self._note_ended()
            self._group.wait(last)
        total = Totals(*totals.tolist())
        for buffer in self._buffers:
            buffer.div_(total.weight or 1.0)
        self._reset()
        return total

    def close(self) -> None:
        """Detaches from the model. Gradients that lie in the buckets are dropped with them."""
        for hook in self._hooks:
            hook.remove()
        for slot in self._slots:
            if slot.parameter.grad is slot.view:
                slot.parameter.grad = None
        self._hooks.clear()
        self._slots.clear()
        self._buffers.clear()
        self._running.clear()

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
        self._start_ready()

    def _start_ready(self) -> None:
        while self._started < len(self.layout) and self._missing[self._started] == 0:
            self._running.append(self._start(self._started))
            self._started += 1
        while self._ended < len(self._running) and self._running[self._ended].done():
            self._note_ended()

    def _start(self, index: int) -> Collective:
        """Starts the reduction of one bucket, in place."""
        buffer = self._buffers[index]
        sent = ring_bytes(buffer.numel() * buffer.itemsize, self._group.size)
        self._meter.started(raw_bytes=sent, sent_bytes=sent)
        return self._group.start_all_reduce(buffer)

    def _note_ended(self) -> None:
        self._meter.ended()
        self._ended += 1

    def _wait_for_backward(self) -> None:
        """On a GPU the backward pass still runs when its last hook has: waiting for it is not communication."""
        if self._group.device.type == "cuda":
            backward = torch.cuda.Event()  # type: ignore[no-untyped-call]
            backward.record()
            poll_until(backward.query, self._group.poll)
