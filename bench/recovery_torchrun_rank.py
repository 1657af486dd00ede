"""A worker of torchrun: DDP, and a checkpoint after every round, as the tutorials of torchrun have it."""

import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from recovery_peer import tell_finished, tell_start
from recovery_work import CONFIG, HANG_SECONDS
from recovery_worker import Loss, batches_of, model_of


def main() -> None:
    rank = int(os.environ["RANK"])
    tell_start(rank)
    snapshot = Path(sys.argv[1]) / "snapshot.pt"
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    # The default group's time-out is for starting, too, which takes longer.
    group = dist.new_group(timeout=timedelta(seconds=HANG_SECONDS))
    batches = batches_of(rank)
    loss = Loss(model_of(batches))
    optimizer = torch.optim.AdamW(loss.parameters(), lr=CONFIG.optimizer.learning_rate)
    first = 1
    if snapshot.exists():
        saved = torch.load(snapshot, weights_only=True)
        loss.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        batches.batches.load_state_dict(saved["data"])
        first = saved["round"] + 1
    model = DistributedDataParallel(loss, process_group=group)
    for round in range(first, CONFIG.rounds + 1):
        optimizer.zero_grad()
        batch = batches.batches.next()
        model(batch.tokens, batch.targets).backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), CONFIG.optimizer.gradient_clip)
        optimizer.step()
        if rank == 0:
            written = snapshot.with_suffix(".new")
            state = {"model": loss.state_dict(), "optimizer": optimizer.state_dict(), "round": round}
            torch.save(state | {"data": batches.batches.state_dict()}, written)
            written.replace(snapshot)
            # torchrun starts all workers again: so this one's process stands for all.
            tell_finished(round, dist.get_world_size(), os.getpid())


if __name__ == "__main__":
    main()
