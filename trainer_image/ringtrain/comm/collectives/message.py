"""What goes over the wire: encoded values behind a header that can say that they are not finite."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ringtrain.comm.codec.codec import Codec

_HEADER_BYTES = 8  # So that what follows is aligned for every codec.
_FINITE, _NOT_FINITE = 0, 1


class Messages:
    """Writes and reads the messages of one all-reduce on one member.

    A part with a NaN or an infinity in it travels as a mark, and all its values arrive as NaN: lossy codecs would make
    finite numbers of them, and nobody would notice.
    """

    def __init__(
        self, codec: Codec, residual: Tensor | None, keep: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`residual` is what was lost before, float32, like the values in length; None without error feedback.

        `keep` is how much of what is lost now it takes: see `Codec.encode_with_residual`.
        """
        self._codec = codec
        self._residual = residual
        self._keep = keep
        self._clock = clock
        self.codec_seconds = 0.0

    def bytes(self, numel: int) -> int:
        """Of a message that holds `numel` values."""
        size = _HEADER_BYTES + self._codec.encoded_bytes(numel)
        return -(-size // _HEADER_BYTES) * _HEADER_BYTES

    def write(self, values: Tensor, offset: int, message: Tensor) -> None:
        """`offset` is where the values begin among those that the residual belongs to."""
        with self._timed():
            data = self._data(values, message)
            if self._residual is None:
                finite = self._codec.encode(values, data)
            else:
                residual = self._residual[offset : offset + values.numel()]
                finite = self._codec.encode_with_residual(values, residual, self._keep, data)
            message[:_HEADER_BYTES] = _FINITE if finite else _NOT_FINITE

    def read(self, message: Tensor, values: Tensor) -> None:
        """Overwrites `values`."""
        with self._timed():
            if message[0] == _FINITE:
                self._codec.decode(self._data(values, message), values)
            else:
                values.fill_(torch.nan)

    def read_add(self, message: Tensor, values: Tensor) -> None:
        """Adds to `values`."""
        with self._timed():
            if message[0] == _FINITE:
                self._codec.decode_add(self._data(values, message), values)
            else:
                values.fill_(torch.nan)

    def _data(self, values: Tensor, message: Tensor) -> Tensor:
        return message[_HEADER_BYTES : _HEADER_BYTES + self._codec.encoded_bytes(values.numel())]

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = self._clock()
        yield
        self.codec_seconds += self._clock() - began
