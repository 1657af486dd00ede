"""Gloo groups bound to this replica's own address, as a backend that torch.distributed knows by name."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed import ProcessGroupGloo

from ringtrain.comm.polling import Poll, run_polled

BACKEND = "ringtrain_gloo"

_CONNECT_TIMEOUT = timedelta(seconds=60)
"""Connecting cannot be polled or left, so an attempt that was given up lasts so long."""


@dataclass(slots=True)
class GlooFactory:
    """Makes the Gloo side of one generation's groups, and keeps them, so that they can be dropped together."""

    address: str
    """IP address to listen on."""
    timeout: timedelta
    """For each collective."""
    poll: Poll
    made: list[ProcessGroupGloo] = field(default_factory=list)
    """In the order of making; the first is the default group's."""
    _default_taken: bool = False

    def connect(self, store: Store, rank: int, size: int) -> ProcessGroupGloo:
        """Connects to all members, who must be doing the same now. Raises RuntimeError when one is not."""
        gloo: Any = ProcessGroupGloo  # torch's stubs do not know the constructor with options.
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=self.address)]
        options._timeout = min(self.timeout, _CONNECT_TIMEOUT)
        group: ProcessGroupGloo = gloo(store, rank, size, options)
        group._set_default_timeout(self.timeout)
        return group

    def create(self, store: Store, rank: int, size: int) -> ProcessGroupGloo:
        """Called by torch: hands out the default group's, which was connected before, and connects those of others."""
        if not self._default_taken:
            self._default_taken = True
        else:
            self.made.append(run_polled(lambda _: self.connect(store, rank, size), self.poll, "ringtrain-connect"))
        return self.made[-1]


_factory: GlooFactory | None = None


def use(factory: GlooFactory | None) -> None:
    """From now on, torch.distributed makes groups of backend BACKEND by `factory`."""
    global _factory
    _factory = factory
    if BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])


def in_use() -> GlooFactory:
    """Raises RuntimeError when there is none."""
    if _factory is None:
        raise RuntimeError("Ringtrain's backends serve only groups formed by ringtrain.comm.forming.form_group")
    return _factory


def _create(options: Any, _backend_options: object) -> ProcessGroupGloo:
    return in_use().create(options.store, options.group_rank, options.group_size)
