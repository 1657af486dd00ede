"""The worker of a torchft replica group: its Manager and optimizer, as its documentation has them."""

import sys
from datetime import timedelta

import torch
from torchft import Manager, Optimizer, ProcessGroupGloo

from recovery_peer import tell_finished, tell_start
from recovery_work import CONFIG, HANG_SECONDS
from recovery_worker import Loss, batches_of, model_of


def main() -> None:
    replica, host = int(sys.argv[1]), sys.argv[2]
    tell_start(replica)
    torch.set_num_threads(1)
    batches = batches_of(replica)
    loss = Loss(model_of(batches))
    optimizer = torch.optim.AdamW(loss.parameters(), lr=CONFIG.optimizer.learning_rate)

    def load(state: dict[str, dict[str, object]]) -> None:
        loss.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    hang = timedelta(seconds=HANG_SECONDS)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=hang),
        load_state_dict=load,
        state_dict=lambda: {"model": loss.state_dict(), "optimizer": optimizer.state_dict()},
        min_replica_size=1,
        timeout=hang,
        replica_id=f"bench_{replica}",
        hostname=host,
    )
    managed = Optimizer(manager, optimizer)
    parameters = list(loss.parameters())
    while manager.current_step() < CONFIG.rounds:
        managed.zero_grad()
        batch = batches.batches.next()
        loss(batch.tokens, batch.targets).backward()
        average(manager, parameters)
        torch.nn.utils.clip_grad_norm_(parameters, CONFIG.optimizer.gradient_clip)
        before = manager.current_step()
        managed.step()
        if manager.current_step() > before:
            tell_finished(manager.current_step(), manager.num_participants(), manager._quorum_id)


def average(manager: Manager, parameters: list[torch.nn.Parameter]) -> None:
    """By the Manager's own call: the DDP of torchft 0.2.0 ends the process by an AssertionError when Gloo fails."""
    gradients = [parameter.grad for parameter in parameters]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    manager.allreduce(flat).wait()
    for gradient, part in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


if __name__ == "__main__":
    main()
