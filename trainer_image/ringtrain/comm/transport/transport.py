"""What every transport does: few operations, all of which every member starts in the same order."""

from typing import Protocol

from torch import Tensor


class Pending(Protocol):
    """A started operation; its tensors belong to it until `wait` returned, and for ever if that never does."""

    def wait(self) -> None:
        """Returns once it is done. Raises PeerLost when it failed, Abandoned when its transport was abandoned."""
        ...


class Transport(Protocol):
    """One of each member's connections to the others. `size` members, of which this is `rank`.

    All tensors are flat, contiguous, uint8, on the CPU, of the same length on all members.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def shift(self, send: Tensor, receive: Tensor) -> Pending:
        """`send` goes to the next member, `receive` comes from the one before; the last one's next is the first."""
        ...

    def all_to_all(self, send: Tensor, receive: Tensor) -> Pending:
        """The i-th of `size` equal parts of `send` goes to member i; the i-th of `receive` comes from there."""
        ...

    def all_gather(self, send: Tensor, receive: Tensor) -> Pending:
        """The i-th of `size` equal parts of `receive` is what member i sends."""
        ...

    def abandon(self) -> None:
        """From any thread: every wait ends now. The transport is of no use any more."""
        ...
