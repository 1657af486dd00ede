"""The hybrid all-reduce of values that are encoded where they lie, on a GPU or in Triton's interpreter."""

import threading
from functools import partial

import pytest
import torch
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.zfp_numba import NumbaZfp
from ringtrain.comm.collectives.message import Messages
from ringtrain.comm.collectives.stage import OnDevice
from ringtrain.comm.intra import Alone
from ringtrain.comm.lane import Lane
from ringtrain.comm.transport.memory import memory_transports
from trainer.comm.codec.interpreter import DEVICE, check_in_interpreter, outside, where_kernels_run
from trainer.comm.codec.zfp_data import same_bits
from trainer.comm.members import together

pytest.importorskip("triton", reason="triton is not installed: see the extra gpu")
from ringtrain.comm.codec.zfp_triton import TritonZfp

# The interpreter computes with numpy, which warns of infinities.
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")

MACHINES = 2
NUMEL = MACHINES * 64 * 11


class OnOneGpu(Alone):
    """The only process of its machine, with a GPU that no stream of its own is needed on."""

    stage = OnDevice(torch.device(DEVICE))  # type: ignore[assignment]


class InTurn(TritonZfp):
    """Triton's interpreter serves one thread at a time."""

    _lock = threading.Lock()

    def queue_encode(self, values: Tensor, data: Tensor, mark: Tensor) -> None:
        with self._lock:
            super().queue_encode(values, data, mark)

    def queue_encode_with_residual(
        self, values: Tensor, residual: Tensor, keep: float, data: Tensor, mark: Tensor
    ) -> None:
        with self._lock:
            super().queue_encode_with_residual(values, residual, keep, data, mark)

    def decode(self, data: Tensor, values: Tensor) -> None:
        with self._lock:
            super().decode(data, values)

    def decode_add(self, data: Tensor, values: Tensor) -> None:
        with self._lock:
            super().decode_add(data, values)


def summed(
    algorithm: str, inputs: list[Tensor], feedback: bool, *, by_triton: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """What an all-reduce over machines makes of each one's values and residual."""
    codec: Codec = InTurn(4, midpoint=True) if by_triton else NumbaZfp(4, midpoint=True, threads=1)
    device = DEVICE if by_triton else "cpu"
    outputs = [values.to(device, copy=True) for values in inputs]
    residuals = [torch.full((NUMEL,), 0.25, device=device) for _ in inputs]
    lanes = [Lane(OnOneGpu() if by_triton else Alone(), between, algorithm) for between in memory_transports(MACHINES)]

    def body(rank: int) -> None:
        messages = Messages(codec, residuals[rank] if feedback else None, 0.5)
        lanes[rank].all_reduce(outputs[rank], 1.0, messages)

    together([partial(body, rank) for rank in range(MACHINES)])
    return [values.cpu() for values in outputs], [residual.cpu() for residual in residuals]


def gradients() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(NUMEL, generator=generator) for _ in range(MACHINES)]


@outside
@pytest.mark.timeout(900)
def test_all_in_the_interpreter() -> None:
    check_in_interpreter(__file__)


@where_kernels_run
@pytest.mark.parametrize(("algorithm", "feedback", "bad"), [("ring", True, 0.0), ("direct", False, torch.nan)])
def test_bits_are_those_of_the_cpu(algorithm: str, feedback: bool, bad: float) -> None:
    inputs = gradients()
    inputs[1][100] = bad
    outputs, residuals = summed(algorithm, inputs, feedback, by_triton=True)
    wanted, wanted_residuals = summed(algorithm, inputs, feedback, by_triton=False)
    for found, expected in zip([*outputs, *residuals], [*wanted, *wanted_residuals], strict=True):
        assert same_bits(found, expected)
    assert bool(outputs[0][100].isnan()) == (bad != 0)
    assert not torch.equal(residuals[0], residuals[1]) or not feedback


def test_messages_arrive_in_memory_of_their_own() -> None:
    stage = OnDevice(torch.device(DEVICE))
    messages = stage.messages(2, 16)
    assert messages.tolist() == [[0] * 16] * 2
    written = stage.begin(messages[0])
    written.fill_(7)
    assert not messages.any()
    stage.send(written, messages[0])
    arrived = stage.arrive(messages[0])
    messages[0].fill_(9)
    assert arrived.tolist() == [7] * 16
