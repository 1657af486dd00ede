"""Messages are sent from the CPU's memory, and encoded where the values lie."""

from typing import Protocol

import torch
from torch import Tensor


class Stage(Protocol):
    """The way of messages, flat uint8 tensors, between the CPU's memory and the device's."""

    def messages(self, count: int, size: int) -> Tensor:
        """The CPU's memory for `count` messages of `size` bytes: (count, size), zeros."""
        ...

    def begin(self, message: Tensor) -> Tensor:
        """The device's memory to write a message to, zeros where nothing is written."""
        ...

    def send(self, written: Tensor, message: Tensor) -> None:
        """Brings what was written to what `begin` gave to `message`: when this returns, it can be sent."""
        ...

    def arrive(self, message: Tensor) -> Tensor:
        """The message on the device. When this returns, others may overwrite `message`."""
        ...


class OnCpu:
    """Values lie in the CPU's memory, and so nothing is copied."""

    def messages(self, count: int, size: int) -> Tensor:
        return torch.zeros(count, size, dtype=torch.uint8)

    def begin(self, message: Tensor) -> Tensor:
        return message

    def send(self, written: Tensor, message: Tensor) -> None:
        pass

    def arrive(self, message: Tensor) -> Tensor:
        return message


class OnDevice:
    """Values lie on a GPU: only encoded ones are copied between it and pinned memory, in the caller's current stream.

    `send` and `arrive` wait for that stream, so it must hold nothing that waits for others.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def messages(self, count: int, size: int) -> Tensor:
        return torch.zeros(count, size, dtype=torch.uint8, pin_memory=self._device.type == "cuda")

    def begin(self, message: Tensor) -> Tensor:
        return torch.zeros_like(message, device=self._device)

    def send(self, written: Tensor, message: Tensor) -> None:
        message.copy_(written)

    def arrive(self, message: Tensor) -> Tensor:
        return message.to(self._device, copy=True)
