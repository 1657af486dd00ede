"""zfp on a GPU, for codec.py: work is queued, and the GPU itself takes the time."""

from collections.abc import Callable

import torch
from torch import Tensor

from ringtrain.comm.codec.zfp_triton import TritonZfp


class QueuedZfp(TritonZfp):
    """Leaves on the GPU whether all values were finite: to ask would be to wait."""

    def __init__(self, rate: int, device: str) -> None:
        super().__init__(rate, midpoint=True)
        self._mark = torch.zeros(1, dtype=torch.int32, device=device)

    def encode(self, values: Tensor, data: Tensor) -> bool:
        self.queue_encode(values, data, self._mark)
        return True

    def encode_with_residual(self, values: Tensor, residual: Tensor, keep: float, data: Tensor) -> bool:
        self.queue_encode_with_residual(values, residual, keep, data, self._mark)
        return True


def seconds(work: Callable[[], object]) -> float:
    """Between two events around the work on the current stream."""
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began.record()
    work()
    ended.record()
    ended.synchronize()
    return began.elapsed_time(ended) / 1000
