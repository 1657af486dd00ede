"""The engine for models that training code wrapped in torch's DistributedDataParallel by itself.

    state = HookState(context.group, context.environment.communication)
    model = DistributedDataParallel(model)
    model.register_comm_hook(state, sum_gradients)

DDP decides what a bucket is, whatever `bucketMiB` says, and decides anew after its first backward pass: bits differ
from those of ringtrain's own reducer, and what encoding had lost is forgotten then.

A lost rank ends the backward pass of all others as soon as polling tells. But DDP has blocking all-reduces and
broadcasts of its own, which nothing but the group's time-out ends: of which parameters were used
(`find_unused_parameters=True`), of buffers such as BatchNorm's (unless `broadcast_buffers=False`), and while it is
built.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch._C._distributed_c10d import GradBucket

from ringtrain.comm.bucket_sum import BucketSum, load_residuals, rescale_residuals, residuals
from ringtrain.comm.buckets import Bucket, ParameterInfo, Slice, layout
from ringtrain.comm.codec.codec import store
from ringtrain.comm.errors import Disagreement
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter, RoundTraffic
from ringtrain.comm.summation import Summation
from ringtrain.contract.communication import CommunicationConfig

_WHOLE = 1 << 62
_WEIGHT = Bucket(torch.float32, exact=True, slices=(Slice("weight", 0, 1),))


@dataclass(frozen=True, slots=True)
class _Known:
    """One of DDP's buckets, and the sums that serve it."""

    parameters: tuple[weakref.ref[Tensor], ...]
    dtype: torch.dtype
    """In which it is summed."""
    device: torch.device
    parts: tuple[tuple[Bucket, BucketSum], ...]
    """What is compressed of it, and what is not."""

    def serves(self, parameters: Sequence[Tensor], dtype: torch.dtype, device: torch.device) -> bool:
        same = [known() for known in self.parameters]
        return (self.dtype, self.device, list(map(id, same))) == (dtype, device, list(map(id, parameters)))

    def is_outdated_by(self, parameters: Sequence[Tensor]) -> bool:
        """A parameter is in one bucket only, until its model is dropped."""
        taken = set(map(id, parameters))
        return any(known is None or id(known) in taken for known in (known() for known in self.parameters))


@dataclass(frozen=True, slots=True)
class _Pending:
    """A bucket that DDP waits for."""

    known: _Known
    buffer: Tensor
    gradients: Sequence[Tensor]
    """In the buffer."""
    future: torch.futures.Future[Tensor]

    def collect(self, weight: float | None) -> None:
        for part, each in self.known.parts:
            for piece in part.slices:
                view = each.part(piece)
                view.copy_(self.gradients[int(piece.name)].reshape(-1))
                if weight is not None:
                    view.mul_(weight)

    def finish(self, weight: float) -> None:
        """Gives DDP the sum / `weight`."""
        for part, each in self.known.parts:
            each.divide(weight)
            for piece in part.slices:
                gradient = self.gradients[int(piece.name)]
                store(each.part(piece).view_as(gradient), gradient)
        self.future.set_result(self.buffer)


class HookState:
    """For `register_comm_hook`, with `sum_gradients`. Lives as long as the group, and no longer."""

    def __init__(self, group: Group, config: CommunicationConfig) -> None:
        """Connects, with all ranks of the group. Raises PeerLost, or what polling raises; ValueError where ranks hold
        parts of a model, for DDP holds whole ones."""
        if group.mesh.parts > 1:
            raise ValueError("DDP holds whole models, but ranks hold parts: set parallelism.pipeline 1, sharding none")
        self.weight: float | None = None
        """What this rank's gradients count for, such as its tokens: set it before every backward pass, on all ranks or
        on none. None: all ranks count the same. Weighted gradients of 16 bits are summed, and metered, as float32."""
        self.rounds = 0
        """Backward passes that were summed, of each model. A checkpoint should hold it, for the warm-up counts them."""
        self._group = group
        self._overlap = config.overlap
        self._meter = Meter()
        self._summation = Summation(group, config, self._meter)
        self._total = self._summation.bucket_sum(_WEIGHT, group.device)
        self._known: list[_Known] = []
        self._pending: list[_Pending] = []
        self._compared = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Connections cannot be copied. DDP's copy of a wrapped model names the hook, but sums without it until it is
        # registered there too.
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # Nor saved: a wrapped model that torch.save wrote is read again without it, and sums as the copy does.
        return type(None), ()

    @property
    def codec(self) -> str:
        """Of large tensors between machines in the last backward pass, such as zfp-4."""
        return self._summation.codec

    def traffic(self) -> RoundTraffic:
        """Since the last call, or since this state was made: of one round, when called after every one."""
        return self._meter.end_round()

    def residuals(self) -> dict[str, Tensor]:
        """What encoding has lost so far, by bucket and segment; the living tensors, float32."""
        return residuals(self._sums())

    def load_residuals(self, saved: Mapping[str, Tensor]) -> bool:
        """Goes on with what `residuals` gave. False when they are of other buckets, and nothing is taken.

        DDP's buckets are not final before its second backward pass, so call it after that.
        """
        return load_residuals(self._sums(), saved)

    def rescale_residuals(self, factor: float) -> None:
        """As Reducer's."""
        rescale_residuals(self._sums(), factor)

    def start(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Starts to sum a bucket; the future gives its buffer, holding the weighted mean over all ranks.

        A backward pass's last bucket waits for all of them: here polling can end the wait, and what goes wrong is
        raised as what it is, where DDP would make a RuntimeError of a failed future. Raises ValueError for sparse
        gradients, for parameters of other types than float32, bfloat16 and float16, and where DDP does not say which
        bucket is the last; RuntimeError after a backward
        pass that failed; Disagreement when ranks began with other rounds, or only some of them with a weight.
        """
        if not self._compared:
            self._compare()
        # DDP's first pass with static_graph=True ends with all buckets, outside of any node, and counts none of them.
        if self._pending and bucket.index() == 0 and torch._C._current_autograd_node() is None:
            raise ValueError(
                "DDP's static_graph=True does not say which bucket is the first pass's last, and with parameters of "
                "several types there are several: set static_graph=False, or make all parameters one type"
            )
        if not self._pending:
            self._summation.begin_round(self.rounds + 1)
        pending = self._new(bucket)
        if any(other.known is pending.known for other in self._pending):
            raise RuntimeError("a backward pass before this one failed: wrap the model anew, with another HookState")
        pending.collect(self.weight)
        self._pending.append(pending)
        if self._overlap:
            self._start(pending)
        if bucket.is_last():
            self._finish()
        return pending.future

    def _compare(self) -> None:
        """Once: messages of other lengths than a peer waits for would end its process, and one too few hold it."""
        with self._meter.exposed():
            first, *others = self._group.all_gather_json([self.rounds, self.weight is not None])
        for rank, other in enumerate(others, start=1):
            if other != first:
                raise Disagreement(
                    f"HookState's [rounds, whether weight is set] are {first} on rank 0, but {other} on rank {rank}: "
                    "set both alike on all ranks before the first backward pass"
                )
        self._compared = True

    def _start(self, pending: _Pending) -> None:
        for _, each in pending.known.parts:
            self._summation.start(each)

    def _finish(self) -> None:
        self._summation.wait_for_backward()
        with self._meter.exposed():
            if not self._overlap:
                for pending in self._pending:
                    self._start(pending)
            if self.weight is not None:
                self._total.buffer.fill_(self.weight)
                self._summation.start(self._total)
            self._summation.wait()
        total = float(self._total.buffer[0]) if self.weight is not None else self._group.topology.size
        for pending in self._pending:
            pending.finish(total)
        self._pending.clear()
        self.rounds += 1

    def _new(self, bucket: GradBucket) -> _Pending:
        buffer = bucket.buffer()
        if buffer.layout is not torch.strided:
            raise ValueError(
                "a gradient is sparse, and only dense ones can be summed: build its layer with sparse=False"
            )
        future: torch.futures.Future[Tensor] = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        return _Pending(self._of(bucket), buffer, bucket.gradients(), future)

    def _of(self, bucket: GradBucket) -> _Known:
        parameters, device = bucket.parameters(), bucket.buffer().device
        # A weighted gradient may pass the range of 16 bits.
        dtype = bucket.buffer().dtype if self.weight is None else torch.float32
        known = next((known for known in self._known if known.serves(parameters, dtype, device)), None)
        if known is None:
            known = self._make(parameters, dtype, device)
            self._known = [*(other for other in self._known if not other.is_outdated_by(parameters)), known]
        return known

    def _make(self, parameters: Sequence[Tensor], dtype: torch.dtype, device: torch.device) -> _Known:
        infos = [ParameterInfo(str(place), tuple(p.shape), dtype) for place, p in enumerate(parameters)]
        parts = [(part, self._summation.bucket_sum(part, device)) for part in layout(infos, _WHOLE)]
        return _Known(tuple(weakref.ref(p) for p in parameters), dtype, device, tuple(parts))

    def _sums(self) -> list[BucketSum]:
        return [each for known in self._known for _, each in known.parts]


def sum_gradients(state: HookState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """The hook: the weighted mean of DDP's bucket over all ranks. When a rank is lost, the backward pass raises."""
    return state.start(bucket)
