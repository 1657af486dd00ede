"""The engine for models that training code wrapped in torch's DistributedDataParallel by itself.

    state = HookState(context.group, context.environment.communication)
    model = DistributedDataParallel(model)
    model.register_comm_hook(state, sum_gradients)

DDP decides what a bucket is, and decides anew after its first round: bits differ from those of ringtrain's own reducer,
and what encoding had lost is forgotten then.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch._C._distributed_c10d import GradBucket

from ringtrain.comm.bucket_sum import BucketSum
from ringtrain.comm.buckets import Bucket, ParameterInfo, Slice, layout
from ringtrain.comm.choice import fabric_plan
from ringtrain.comm.codec.build import build_codecs, compile_ahead
from ringtrain.comm.errors import PeerLost
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter
from ringtrain.contract.communication import CommunicationConfig

_WHOLE = 1 << 62
_POLL_SECONDS = 0.05
_WEIGHT = Bucket(torch.float32, exact=True, slices=(Slice("weight", 0, 1),))


@dataclass(frozen=True, slots=True)
class _Known:
    """What one of DDP's buckets was when it was summed last."""

    shapes: tuple[torch.Size, ...]
    parts: tuple[tuple[Bucket, BucketSum], ...]
    """What is compressed of it, and what is not."""
    weight: BucketSum


class HookState:
    """For `register_comm_hook`, with `sum_gradients`. Lives as long as the group, and no longer."""

    def __init__(self, group: Group, config: CommunicationConfig, meter: Meter | None = None) -> None:
        """Connects, with all ranks of the group. Raises PeerLost, or what polling raises."""
        self.weight: float | None = None
        """What this rank's gradients count for, such as its tokens: set it before every backward pass, on all ranks or
        on none. None: all ranks count the same."""
        self.rounds = 0
        """Backward passes that were summed. A checkpoint should hold it, for the warm-up counts them."""
        self._group = group
        self._config = config
        self._codecs = build_codecs(config)
        self._known: dict[int, _Known] = {}
        if config.codec == "zfp":
            compile_ahead()
        self._engine = group.start_engine(fabric_plan(config, group.topology, group.device), meter or Meter())
        self._outstanding = 0
        self._lock = threading.Condition()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A copied model sums over the same connections.
        return self

    def start(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Starts to sum a bucket; the future gives its buffer, holding the weighted mean over all ranks."""
        known = self._of(bucket)
        gradients = bucket.gradients()
        weight = self.weight
        for part, each in known.parts:
            for piece in part.slices:
                view = each.part(piece)
                view.copy_(gradients[int(piece.name)].reshape(-1))
                if weight is not None:
                    view.mul_(weight)
        compressing = self.rounds >= self._config.warmup_rounds
        tasks = [task for _, each in known.parts for task in each.tasks(compressing)]
        if weight is not None:
            known.weight.buffer[0] = weight
            tasks += known.weight.tasks(compressing)
        future: torch.futures.Future[Exception | None] = torch.futures.Future(
            devices=[bucket.buffer().device] if bucket.buffer().is_cuda else None
        )
        with self._lock:
            self._outstanding += 1
        self._engine.submit(tasks, self._then(future))
        if bucket.is_last():
            self.rounds += 1
            threading.Thread(target=self._watch, name="ringtrain-hook-watch", daemon=True).start()

        def finish(done: torch.futures.Future[Exception | None]) -> Tensor:
            failure = done.value()
            if failure is not None:
                raise PeerLost(f"PeerLost: {failure}")
            self._put_back(known, gradients, weight)
            buffer: Tensor = bucket.buffer()
            return buffer

        return future.then(finish)

    def _put_back(self, known: _Known, gradients: Sequence[Tensor], weight: float | None) -> None:
        total = float(known.weight.buffer[0]) if weight is not None else self._group.size
        for part, each in known.parts:
            each.divide(total)
            for piece in part.slices:
                gradient = gradients[int(piece.name)]
                gradient.copy_(each.part(piece).view_as(gradient))

    def _of(self, bucket: GradBucket) -> _Known:
        shapes = tuple(parameter.shape for parameter in bucket.parameters())
        known = self._known.get(bucket.index())
        if known is None or known.shapes != shapes:
            known = self._known[bucket.index()] = self._new(shapes, bucket.buffer())
        return known

    def _new(self, shapes: tuple[torch.Size, ...], buffer: Tensor) -> _Known:
        infos = [ParameterInfo(str(place), tuple(shape), buffer.dtype) for place, shape in enumerate(shapes)]

        def made(bucket: Bucket) -> BucketSum:
            return BucketSum(bucket, self._group.topology, self._codecs, buffer.device)

        return _Known(shapes, tuple((part, made(part)) for part in layout(infos, _WHOLE)), made(_WEIGHT))

    def _then(self, future: "torch.futures.Future[Exception | None]") -> Callable[[Exception | None], None]:
        def ended(failure: Exception | None) -> None:
            with self._lock:
                self._outstanding -= 1
                self._lock.notify_all()
            future.set_result(failure)

        return ended

    def _watch(self) -> None:
        """Polls for the training thread, which now waits inside DDP, where nothing wakes it but an ended future."""
        while self._is_waiting():
            try:
                self._group.poll()
            except Exception:  # The training thread's next poll raises it again.
                self._engine.abandon()
                return

    def _is_waiting(self) -> bool:
        with self._lock:
            return not self._lock.wait_for(lambda: self._outstanding == 0, _POLL_SECONDS)


def sum_gradients(state: HookState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """The hook: the weighted mean of DDP's bucket over all ranks. When a rank is lost, the backward pass raises."""
    return state.start(bucket)
