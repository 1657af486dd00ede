"""One bucket of gradients on its way through the engine."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ringtrain.comm.buckets import Bucket, Slice
from ringtrain.comm.codec.build import Codecs
from ringtrain.comm.engine import Task
from ringtrain.comm.segments import Cut
from ringtrain.comm.topology import Topology

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class BucketSum:
    """The bucket's memory, how it is cut, and what encoding has lost of it."""

    def __init__(self, bucket: Bucket, topology: Topology, codecs: Codecs, device: torch.device) -> None:
        """Raises ValueError for a dtype that is not float32, bfloat16 or float16."""
        if bucket.dtype not in _DTYPES:
            raise ValueError(
                f"parameter {bucket.slices[0].name} is {str(bucket.dtype).removeprefix('torch.')}: gradients are "
                "summed in float32, so parameters must be float32, bfloat16 or float16"
            )
        machines = len(topology.machines)
        cut = Cut(machines, topology.processes, 1 if bucket.exact else codecs.block)
        self._bucket = bucket
        self._codecs = codecs
        self.scale = 1.0 if bucket.dtype == torch.float32 else 1.0 / topology.size
        """The sum comes multiplied by it: a mean of what 16 bits can hold is in their range too, a sum need not be."""
        self.buffer = torch.zeros(cut.padded(bucket.numel), dtype=bucket.dtype, device=device)
        """The gradients, then padding; after the tasks ended, `scale` x their sum over all ranks."""
        self._segments = tuple(cut.segments(len(self.buffer)))
        feeds_back = codecs.keep is not None and not bucket.exact and machines > 1
        lengths = [segment.numel // topology.processes for segment in self._segments] if feeds_back else []
        self.residuals = [torch.zeros(length, device=device) for length in lengths]
        """What encoding has lost of each segment, float32; none without error feedback."""

    def part(self, part: Slice) -> Tensor:
        """One parameter's place in the buffer, flat."""
        return self.buffer[part.offset : part.offset + part.numel]

    def divide(self, weight: float) -> None:
        """Makes the buffer the sum over all ranks / `weight`; the plain sum when nobody had any weight."""
        self.buffer.div_((weight or 1.0) * self.scale)

    def tasks(self, compressing: bool) -> list[Task]:
        """Sums the buffer as it is now. `compressing` is false during the warm-up."""
        # A lossy codec leaves noise between the gradients and behind them.
        for begin, end in (*self._bucket.gaps, (self._bucket.numel, len(self.buffer))):
            self.buffer[begin:end].zero_()
        codec, residuals = self._codecs.exact, []
        if not self._bucket.exact:
            codec = self._codecs.main if compressing else self._codecs.warm_up
            residuals = self.residuals if compressing else []
        ready = None
        if self.buffer.is_cuda:
            ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
            ready.record()
        return [
            Task(
                segment=self._view(number),
                scale=self.scale,
                codec=codec,
                residual=residuals[number] if residuals else None,
                keep=self._codecs.keep or 0.0,
                # One message of each bucket tells enough, and costs less than a percent of decoding them all.
                sample=number == 0 and codec is not self._codecs.exact,
                ready=ready,
            )
            for number in range(len(self._segments))
        ]

    def _view(self, number: int) -> Tensor:
        segment = self._segments[number]
        return self.buffer[segment.offset : segment.offset + segment.numel]


def residuals(sums: Sequence[BucketSum]) -> dict[str, Tensor]:
    """What encoding has lost so far, by the place of its bucket and segment; the living tensors, float32."""
    return {
        f"{index}.{number}": residual
        for index, each in enumerate(sums)
        for number, residual in enumerate(each.residuals)
    }


def load_residuals(sums: Sequence[BucketSum], saved: Mapping[str, Tensor]) -> bool:
    """Goes on with what `residuals` gave. False when they are of another layout, and nothing is taken."""
    own = residuals(sums)
    if {name: t.shape for name, t in own.items()} != {name: t.shape for name, t in saved.items()}:
        return False
    for name, residual in own.items():
        residual.copy_(saved[name])
    return True


def rescale_residuals(sums: Sequence[BucketSum], factor: float) -> None:
    """Gradients are `factor` times as large from now on; 0 forgets what was lost, whatever it is."""
    for residual in residuals(sums).values():
        if factor == 0:
            residual.zero_()
        else:
            residual.mul_(factor)
