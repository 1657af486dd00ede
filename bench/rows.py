"""The rows of the communication benchmark: torch's own ways to sum gradients, and ours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd
from torch.nn.parallel import DistributedDataParallel

from ringtrain.contract.communication import CommunicationConfig

FLOOR = "ddp-none"
"""Sends nothing: what remains of its round is not communication."""
SIXTEEN_BITS = "ddp-fp16"
"""The plain 16-bit row. torch's bf16 hook does the same in as many bytes, but only over NCCL."""
BUCKET_MEBIBYTES = 4.0
"""Of all rows. torch's own choice, 25, would leave these models two buckets, and so little to overlap."""
PREPARATION = 4
"""Rounds before any is measured: DDP rebuilds its buckets in the second, PowerSGD starts in the third."""

Peer = Literal["none", "fp32", "fp16", "powersgd-1", "powersgd-4"]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    peer: Peer | None = None
    """torch's DDP with that hook."""
    ours: CommunicationConfig | None = None


def rows() -> dict[str, Row]:
    """By name, in the order of the tables."""
    peers: tuple[Peer, ...] = ("none", "fp32", "fp16", "powersgd-1", "powersgd-4")
    found = [Row(f"ddp-{peer}", peer=peer) for peer in peers]
    codecs: dict[str, dict[str, Any]] = {
        "bf16": {"codec": "bf16"},
        "zfp-8": {"codec": "zfp", "rate": 8},
        "zfp-5": {"codec": "zfp", "rate": 5},
        "zfp-4": {"codec": "zfp", "rate": 4},
        "int4": {"codec": "int4"},
    }
    for name, fields in codecs.items():
        for algorithm in ("ring", "direct"):
            config = CommunicationConfig.model_validate(
                {**fields, "algorithm": algorithm, "bucketMiB": BUCKET_MEBIBYTES, "warmupRounds": 0}
            )
            found.append(Row(f"{name}-{algorithm}", ours=config))
    return {row.name: row for row in found}


class _OneBucket(power_sgd.PowerSGDState):
    """PowerSGD's hook starts collectives as others end. NCCL keeps their order, Gloo does not: with several buckets in
    one group, ranks mix them up and hang. So each bucket has a group and a state of its own."""

    def __init__(self, group: dist.ProcessGroup, rank: int) -> None:
        # Error feedback and warm start are defaults; with them, two plain rounds are the fewest it takes.
        super().__init__(group, rank, start_powerSGD_iter=2, batch_tensors_with_same_shape=True)

    def maybe_increase_iter(self, bucket: GradBucket) -> None:  # noqa: ARG002
        self.iter += 1


def wrap(model: nn.Module, peer: Peer, new_group: Callable[[], dist.ProcessGroup]) -> DistributedDataParallel:
    """As a user would who has read the hooks' documentation."""
    group = new_group()
    wrapped = DistributedDataParallel(
        model, process_group=group, bucket_cap_mb=BUCKET_MEBIBYTES, gradient_as_bucket_view=True
    )
    register: Any = wrapped.register_comm_hook  # Its stub takes functions of one signature only.
    match peer:
        case "none":
            register(None, debugging_hooks.noop_hook)
        case "fp16":
            register(group, default_hooks.fp16_compress_hook)
        case "powersgd-1" | "powersgd-4":
            size = sum(p.numel() * p.itemsize for p in model.parameters())
            # All buckets but the first and the last are at least as large as asked for.
            buckets = int(size / (BUCKET_MEBIBYTES * 2**20)) + 2
            states = [_OneBucket(new_group(), int(peer[-1])) for _ in range(buckets)]
            register(states, _power_sgd)
        case "fp32":
            pass
    return wrapped


def _power_sgd(states: list[_OneBucket], bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    return power_sgd.powerSGD_hook(states[bucket.index()], bucket)
