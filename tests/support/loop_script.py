"""Training code of a user: rounds of an all-reduce, each with a heartbeat. Arguments: rounds, seconds between them."""

import sys
import time

import torch

import ringtrain
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress

ROUNDS, PAUSE = int(sys.argv[1]), float(sys.argv[2])


def train(context: ringtrain.Context) -> None:
    context.state["generations"] = [*context.state.get("generations", []), str(context.generation)]
    for round in range(1, ROUNDS + 1):
        context.round_started(round)
        total = torch.full((1000,), float(context.rank + 1))
        context.group.all_reduce(total)
        expected = context.world_size * (context.world_size + 1) / 2
        if not bool((total == expected).all()):
            raise ArithmeticError(f"the sum is {total[0]}, expected {expected}")
        context.beat(Phase.TRAINING, Progress(round=round, total_rounds=ROUNDS, loss=1 / round))
        time.sleep(PAUSE)
    sys.stdout.write(f"rank {context.rank} finished in generations {' '.join(context.state['generations'])}\n")


torch.set_num_threads(1)
ringtrain.run(train)
