"""What the reducer and the DDP hook have in common: buckets that one engine sums over the ranks of a group."""

import torch

from ringtrain.comm.bucket_sum import BucketSum
from ringtrain.comm.buckets import Bucket
from ringtrain.comm.choice import fabric_plan
from ringtrain.comm.codec.build import build_codecs, compile_ahead
from ringtrain.comm.engine import Ticket
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter
from ringtrain.comm.polling import poll_until
from ringtrain.comm.verify import agree_on_checksums
from ringtrain.contract.communication import CommunicationConfig


class Summation:
    """A round: `begin_round`, `start` for each bucket, in the same order on all ranks, then `wait`."""

    def __init__(self, group: Group, config: CommunicationConfig, meter: Meter) -> None:
        """Connects, with all ranks of the group. Raises PeerLost, or what polling raises."""
        self._group = group
        self._verify = config.verify
        self._warmup_rounds = config.warmup_rounds
        self._codecs = build_codecs(config)
        if config.codec == "zfp":
            compile_ahead()
        self._engine = group.start_engine(fabric_plan(config, group.topology, group.device), meter)
        self._running: list[tuple[BucketSum, Ticket]] = []
        self.begin_round(1)

    @property
    def codec(self) -> str:
        """Of large tensors between machines in this round, such as zfp-4."""
        return (self._codecs.main if self._compressing else self._codecs.warm_up).name

    @property
    def started(self) -> int:
        """Buckets of this round."""
        return len(self._running)

    def bucket_sum(self, bucket: Bucket, device: torch.device) -> BucketSum:
        """Raises ValueError for a dtype that is not float32, bfloat16 or float16."""
        return BucketSum(bucket, self._group.topology, self._codecs, device)

    def begin_round(self, round: int) -> None:
        """The first is 1. Raises RuntimeError when the round before was not waited for: its sums may still run."""
        if self._running:
            raise RuntimeError(
                f"round {round} begins, but sums of the round before were started and never waited for: did its "
                "backward pass fail? Leave the training loop then, for the other ranks cannot know of it"
            )
        self._compressing = round > self._warmup_rounds

    def start(self, each: BucketSum) -> None:
        """Nobody may touch its buffer until `wait` returned."""
        self._running.append((each, self._engine.submit(each.tasks(self._compressing))))

    def wait_for_backward(self) -> None:
        """On a GPU the backward pass still runs when its last hook has: waiting for it is not communication."""
        if self._group.device.type == "cuda":
            backward = torch.cuda.Event()  # type: ignore[no-untyped-call]
            backward.record()
            poll_until(backward.query, self._group.poll)

    def wait(self) -> None:
        """Until all that was started is summed, which ends the round. Raises PeerLost, Disagreement, what the group's
        poll raises, and what went wrong in the engine."""
        for _, ticket in self._running:
            ticket.wait(self._group.poll)
        if self._verify:
            agree_on_checksums(self._group, [each.buffer for each, _ in self._running])
        self._running.clear()

    def close(self) -> None:
        self._engine.close()
        self._running.clear()
