"""What ranks do in the distributed tests of pipelines and of sharding."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ringtrain.checkpoint.source import VolumeSource
from ringtrain.checkpoint.state import State, read_files
from ringtrain.checkpoint.tree import Unread, flatten, rows
from ringtrain.checkpoint.volume import candidates, commit, staging
from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.errors import PeerLost
from ringtrain.comm.group import Group
from ringtrain.comm.verify import agree, state_digest
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import ShardFile
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.trainer_config import (
    BatchConfig,
    DataConfig,
    EvaluationConfig,
    ModelConfig,
    OptimizerConfig,
    TrainerConfig,
)
from ringtrain.data.corpus import load_corpus
from ringtrain.models.language_model import TIED
from ringtrain.train.evaluation import Evaluation
from ringtrain.train.process import prepare
from ringtrain.train.trainer import FinishedRound, Trainer
from trainer.checkpoint.checkpoints import write_files
from trainer.comm.ranks import Left, Link

EXACT = CommunicationConfig(codec="none", verify=True)
BATCH = 8
"""Sequences in a batch of all ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    pipeline: int = 1
    processes: int = 1
    rounds: int = 3
    kind: str = "gpt"
    parallelism: dict[str, Any] = field(default_factory=dict)
    communication: CommunicationConfig = EXACT
    accumulation: int = 1
    context: int = 16

    def config(self, data: int) -> TrainerConfig:
        return TrainerConfig(
            rounds=self.rounds,
            seed=3,
            model=ModelConfig.model_validate(
                {"kind": self.kind, "size": "nano", "layers": 4, "context_length": self.context}
            ),
            data=DataConfig(paths=("{stdlib}/json/*.py",)),
            batch=BatchConfig(per_rank=BATCH // data // self.accumulation, accumulation=self.accumulation),
            optimizer=OptimizerConfig(warmup_rounds=1, gradient_clip=0.2),
        )

    def layout(self) -> ParallelismConfig:
        return ParallelismConfig(pipeline=self.pipeline, **self.parallelism)

    def mesh(self, size: int) -> Mesh:
        return self.layout().mesh(size, self.processes)


def train_all(link: Link, rank: int, size: int, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """One setting after another, each in a generation of its own: `train` of each."""
    prepare(1, torch.device("cpu"))
    return [train(link, rank, size, setting, f"{number}.0") for number, setting in enumerate(settings)]


def train(link: Link, rank: int, size: int, setting: Setting, generation: str) -> dict[str, Any]:
    """Losses, and what the rank holds at the end."""
    trainer, group = build(link, rank, size, setting, generation)
    config = setting.config(group.mesh.data)
    losses, skipped = [], []
    for _ in range(setting.rounds):
        finished = train_round(trainer, setting)
        losses.append(finished.loss)
        skipped.append(finished.skipped)
        agree(group, trainer.round, trainer.digest())
    evaluation = EvaluationConfig(paths=("{stdlib}/json/*.py",), batches=setting.accumulation)
    evaluated = trainer.evaluate(Evaluation(config, evaluation, load_corpus(config.data), group))
    model = {name: rows(leaf) for name, leaf in trainer.state().replicated["model"].items()}
    tied = model.get(TIED) if setting.pipeline == 1 else trainer.model.state_dict().get(TIED)
    result = {
        "losses": losses,
        "evaluated": evaluated,
        "skipped": skipped,
        "digest": state_digest(model),
        "whole": trainer.parameters_digest(),
        "model": {name: tensor.numpy() for name, tensor in model.items()},
        "bytes": held_bytes(trainer),
        "tied": state_digest({TIED: tied}) if tied is not None else "",
    }
    trainer.close()
    group.destroy()
    return result


def train_compiled(link: Link, rank: int, size: int, setting: Setting) -> tuple[int, dict[str, Any]]:
    """(graphs that were compiled, `train` of the setting)"""
    (result,) = train_all(link, rank, size, [setting])
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"]), result


def held_bytes(trainer: Trainer) -> int:
    """Of parameters and moments on this rank."""
    replicated = trainer.state().replicated
    leaves, _ = flatten([replicated["model"], replicated["optimizer"]])
    return sum(rows(leaf).untyped_storage().nbytes() for leaf in leaves.values())


def save_all(link: Link, rank: int, size: int, settings: Sequence[Setting], root: Path) -> list[dict[str, Any]]:
    """Trains two rounds and a part of the third by each setting, saves the number-th to `root`/SIZE-NUMBER; what was
    saved."""
    prepare(1, torch.device("cpu"))
    results = []
    for number, setting in enumerate(settings):
        trainer, group = build(link, rank, size, setting, f"{number}.0")
        for _ in range(2):
            train_round(trainer, setting)
        trainer.begin_round()
        trainer.train_micro_batch()
        through_files(group, trainer, root / f"{size}-{number}")
        results.append(held(trainer))
        trainer.close()
        group.destroy()
    return results


def load_all(
    link: Link, rank: int, size: int, settings: Sequence[Setting], checkpoints: Sequence[Path]
) -> list[list[dict[str, Any]]]:
    """What each setting holds after loading each of the checkpoints."""
    prepare(1, torch.device("cpu"))
    results: list[list[dict[str, Any]]] = []
    for number, setting in enumerate(settings):
        group = link.form(rank, size, f"{number}.0", processes=setting.processes, mesh=setting.mesh(size))
        results.append([])
        for root in checkpoints:
            trainer = again(setting, group)
            state = read(group, trainer, root)
            trainer.load(state)
            leaves = [rows(leaf) for leaf in state.replicated["model"].values() if not isinstance(leaf, Unread)]
            results[-1].append(held(trainer) | {"read": sum(leaf.nbytes for leaf in leaves)})
            trainer.close()
        group.destroy()
    return results


def unbroken_and_resumed(link: Link, rank: int, size: int, setting: Setting, root: Path) -> list[str]:
    """Digests of a run of three rounds, and of one that goes on from the middle of the second."""
    prepare(1, torch.device("cpu"))
    unbroken, group = build(link, rank, size, setting, "0.0")
    for _ in range(3):
        train_round(unbroken, setting)
    digests = [unbroken.digest()]
    unbroken.close()

    interrupted = again(setting, group)
    train_round(interrupted, setting)
    interrupted.begin_round()
    interrupted.train_micro_batch()
    state = through_files(group, interrupted, root)
    interrupted.close()

    resumed = again(setting, group)
    resumed.load(state)
    assert resumed.micro_batches == 1
    for _ in range(2):
        train_round(resumed, setting)
    digests.append(resumed.digest())
    resumed.close()
    group.destroy()
    return digests


def build(link: Link, rank: int, size: int, setting: Setting, generation: str) -> tuple[Trainer, Group]:
    group = link.form(rank, size, generation, processes=setting.processes, mesh=setting.mesh(size))
    return again(setting, group), group


def again(setting: Setting, group: Group) -> Trainer:
    """Another trainer of the same generation."""
    config = setting.config(group.mesh.data)
    return Trainer(config, setting.layout(), setting.communication, load_corpus(config.data), group)


def train_round(trainer: Trainer, setting: Setting) -> FinishedRound:
    trainer.begin_round()
    while trainer.micro_batches < setting.accumulation:
        trainer.train_micro_batch()
    return trainer.finish_round(Votes(), lambda: None)


def held(trainer: Trainer) -> dict[str, Any]:
    """What a checkpoint holds of this rank, and where it was in training."""
    replicated = trainer.state().replicated
    trees = {"model": replicated["model"], **{name: replicated["optimizer"][name] for name in ("first", "second")}}
    return {
        "progress": (trainer.round, trainer.micro_batches),
        "whole": trainer.parameters_digest(),
        **{kind: {name: rows(leaf).numpy().copy() for name, leaf in tree.items()} for kind, tree in trees.items()},
    }


def through_files(group: Group, trainer: Trainer, root: Path) -> State:
    """Saves the state as a checkpoint and reads it back."""
    root.mkdir(exist_ok=True)
    directory = staging(root, Generation(0, 0), 0)
    holders = group.mesh.twins(group.rank)
    files = [file.model_dump() for file in write_files(directory, trainer.state(), group.rank, holders)]
    shards = dict(enumerate(group.all_gather_json(files)))
    if group.rank == 0:
        parsed = {rank: [ShardFile.model_validate(file) for file in own] for rank, own in shards.items()}
        commit(root, Generation(0, 0), 0, parsed, group.mesh, job="gpt")
    group.barrier()
    return read(group, trainer, root)


def read(group: Group, trainer: Trainer, root: Path) -> State:
    found = candidates(root)[0]
    assert found.manifest is not None
    return read_files(VolumeSource(found.path, found.manifest), group.rank, group.mesh, silent, trainer.needs)


def silent() -> None:
    pass


def lose_a_peer(link: Link, rank: int, size: int, setting: Setting) -> None:
    """Trains until a collective fails or the test says so, and tells why."""
    prepare(1, torch.device("cpu"))
    trainer, group = build(link, rank, size, setting, "0.0")
    reason = ""
    try:
        for number in range(100_000):
            train_round(trainer, setting)
            if number == 1:
                link.say("training")
    except (PeerLost, Left) as error:
        reason = type(error).__name__
    trainer.close()
    group.destroy()
    link.say(reason)
