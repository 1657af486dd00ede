"""What ranks do in the distributed tests of the trainer."""

import sys
from pathlib import Path

import torch

from ringtrain.checkpoint.source import VolumeSource
from ringtrain.checkpoint.state import State, read_files
from ringtrain.checkpoint.volume import candidates, commit, staging
from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.group import Group
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import ShardFile
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.trainer_config import BatchConfig, DataConfig, ModelConfig, OptimizerConfig, TrainerConfig
from ringtrain.data.corpus import load_corpus
from ringtrain.train.process import prepare
from ringtrain.train.trainer import OtherModel, Trainer
from trainer.checkpoint.checkpoints import write_files
from trainer.comm.ranks import Link

ACCUMULATION = 3
CONFIG = TrainerConfig(
    rounds=6,
    seed=3,
    model=ModelConfig(size="nano", context_length=16, dropout=0.1),
    data=DataConfig(paths=("{stdlib}/json/*.py",)),
    batch=BatchConfig(per_rank=2, accumulation=ACCUMULATION),
    optimizer=OptimizerConfig(warmup_rounds=2),
)
COMMUNICATION = CommunicationConfig(codec="zfp", error_feedback="plain", bucket_mebibytes=0.05, warmup_rounds=0)


def silent() -> None:
    pass


def build(group: Group, config: TrainerConfig = CONFIG) -> Trainer:
    prepare(config.threads, group.device)
    return Trainer(config, ParallelismConfig(), COMMUNICATION, load_corpus(config.data), group)


def micro_batches(trainer: Trainer, count: int) -> list[float]:
    """Trains so many micro-batches, and finishes rounds on the way; the losses of these."""
    losses = []
    for _ in range(count):
        trainer.train_micro_batch()
        if trainer.micro_batches == ACCUMULATION:
            losses.append(trainer.finish_round(Votes(), lambda: None).loss)
    return losses


def through_files(group: Group, state: State, root: Path) -> State:
    """Saves the state as a checkpoint and reads it back."""
    directory = staging(root, Generation(0, 0), 0)
    holders = group.mesh.twins(group.rank)
    files = [file.model_dump() for file in write_files(directory, state, group.rank, holders)]
    shards = dict(enumerate(group.all_gather_json(files)))
    if group.rank == 0:
        parsed = {rank: [ShardFile.model_validate(file) for file in own] for rank, own in shards.items()}
        commit(root, Generation(0, 0), 0, parsed, group.mesh, job="gpt")
    group.barrier()
    found = candidates(root)[0]
    assert found.manifest is not None
    return read_files(VolumeSource(found.path, found.manifest), group.rank, group.mesh, silent)


def unbroken_and_resumed(link: Link, rank: int, size: int, root: Path, interrupted_at: int) -> list[tuple[str, float]]:
    """(digest, last loss) of a run of 4 rounds, and of one that goes on from a checkpoint."""
    group = link.form(rank, size)
    unbroken = build(group)
    losses = micro_batches(unbroken, 4 * ACCUMULATION)
    results = [(unbroken.digest(), losses[-1])]
    unbroken.close()

    interrupted = build(group)
    micro_batches(interrupted, interrupted_at)
    state = through_files(group, interrupted.state(), root)
    micro_batches(interrupted, 1)
    interrupted.close()

    resumed = build(group)
    resumed.load(state)
    losses = micro_batches(resumed, 4 * ACCUMULATION - interrupted_at)
    results.append((resumed.digest(), losses[-1]))
    resumed.close()
    group.destroy()
    return results


def start_twice(link: Link, rank: int, size: int) -> list[str]:
    """Digests of two trainers built one after another, with training in between; the random numbers after; and what
    of torch was imported on the way that takes long."""
    group = link.form(rank, size)
    first = build(group)
    digests = [first.digest()]
    micro_batches(first, 1)
    first.close()
    second = build(group)
    digests += [second.digest(), str(torch.rand(1).item())]
    second.close()
    group.destroy()
    return [*digests, *sorted({"torch._dynamo", "torch._inductor", "sympy"} & sys.modules.keys())]


def save_one(link: Link, rank: int, size: int, root: Path) -> str:
    group = link.form(rank, size)
    trainer = build(group)
    micro_batches(trainer, 2 * ACCUMULATION + 1)
    through_files(group, trainer.state(), root)
    digest = trainer.parameters_digest()
    trainer.close()
    group.destroy()
    return digest


def load_elsewhere(link: Link, rank: int, size: int, root: Path, width: int | None) -> tuple[str, object]:
    """The digest after loading a checkpoint of another world, and what is left of the round it was taken in."""
    group = link.form(rank, size)
    config = CONFIG.model_copy(update={"model": CONFIG.model.model_copy(update={"width": width})})
    trainer = build(group, config)
    found = candidates(root)[0]
    assert found.manifest is not None
    try:
        trainer.load(read_files(VolumeSource(found.path, found.manifest), rank, group.mesh, silent))
        replicated = trainer.state().replicated
        return trainer.parameters_digest(), (trainer.round, trainer.micro_batches, replicated["data"]["position"])
    except OtherModel as error:
        return "other model", str(error)
    finally:
        group.destroy()
