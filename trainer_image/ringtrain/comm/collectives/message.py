"""What goes over the wire: encoded values behind a header that can say that they are not finite."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.collectives.stage import OnCpu, Stage

_HEADER_BYTES = 8  # So that what follows is aligned for every codec.
_MARK = torch.int32


class Messages:
    """Writes and reads the messages of one all-reduce on one member.

    A part with a NaN or an infinity in it travels as a mark, and all its values arrive as NaN: lossy codecs would make
    finite numbers of them, and nobody would notice.
    """

    def __init__(
        self,
        codec: Codec,
        residual: Tensor | None,
        keep: float,
        *,
        sample: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`residual` is what was lost before, float32, like the values in length; None without error feedback.

        `keep` is how much of what is lost now it takes: see `Codec.encode_with_residual`. With `sample`, what encoding
        loses of the first message is measured.
        """
        self._codec = codec
        self._residual = residual
        self._keep = keep
        self._sample = sample
        self._clock = clock
        self.stage: Stage = OnCpu()
        """Where the values lie."""
        self.codec_seconds = 0.0
        self.sampled_square = 0.0
        """Sum of squares of the values of the message that was sampled; 0 when none was, or not all were finite."""
        self.lost_square = 0.0
        """And of what encoding lost of them."""

    def allocate(self, count: int, numel: int) -> Tensor:
        """Memory for `count` messages that hold `numel` values each: uint8 (count, bytes(numel)), on the CPU."""
        return self.stage.messages(count, self.bytes(numel))

    def bytes(self, numel: int) -> int:
        """Of a message that holds `numel` values."""
        size = _HEADER_BYTES + self._codec.encoded_bytes(numel)
        return -(-size // _HEADER_BYTES) * _HEADER_BYTES

    def write(self, values: Tensor, offset: int, message: Tensor) -> None:
        """`offset` is where the values begin among those that the residual belongs to."""
        with self._timed():
            written = self.stage.begin(message)
            mark, data = _mark(written), self._data(values, written)
            residual = self._residual[offset : offset + values.numel()] if self._residual is not None else None
            # Before encoding overwrites the residual.
            wanted = _wanted(values, residual) if self._sample else None
            if residual is None:
                self._codec.queue_encode(values, data, mark)
            else:
                self._codec.queue_encode_with_residual(values, residual, self._keep, data, mark)
            self.stage.send(written, message)
            if wanted is not None:
                self._measure(wanted, data, mark)

    def read(self, message: Tensor, values: Tensor) -> None:
        """Overwrites `values`."""
        with self._timed():
            if _mark(message):
                values.fill_(torch.nan)
            else:
                self._codec.decode(self._data(values, self.stage.arrive(message)), values)

    def read_add(self, message: Tensor, values: Tensor) -> None:
        """Adds to `values`."""
        with self._timed():
            if _mark(message):
                values.fill_(torch.nan)
            else:
                self._codec.decode_add(self._data(values, self.stage.arrive(message)), values)

    def _measure(self, wanted: Tensor, data: Tensor, mark: Tensor) -> None:
        self._sample = False
        if mark:
            return
        decoded = torch.empty_like(wanted)
        self._codec.decode(data, decoded)
        self.sampled_square = _square(wanted)
        self.lost_square = _square(decoded.sub_(wanted))

    def _data(self, values: Tensor, message: Tensor) -> Tensor:
        return message[_HEADER_BYTES : _HEADER_BYTES + self._codec.encoded_bytes(values.numel())]

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = self._clock()
        yield
        self.codec_seconds += self._clock() - began


def _wanted(values: Tensor, residual: Tensor | None) -> Tensor:
    return values.float() if residual is None else values.float() + residual


def _square(values: Tensor) -> float:
    """The sum of their squares, which may pass the range of float32."""
    return float(torch.linalg.vector_norm(values, dtype=torch.float64)) ** 2


def _mark(message: Tensor) -> Tensor:
    """The header's: see `Codec.queue_encode`."""
    return message[: _MARK.itemsize].view(_MARK)
