"""The training function of the built-in trainer: entered anew in every generation."""

from pathlib import Path

from ringtrain.checkpoint.reader import Reader, Restored
from ringtrain.checkpoint.writer import Writer
from ringtrain.comm.verify import agree
from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import CommunicationTotals, Progress
from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain.data.corpus import Corpus, load_corpus
from ringtrain.runtime.context import Context
from ringtrain.runtime.errors import BadConfiguration
from ringtrain.train.process import prepare, say
from ringtrain.train.report import communication_totals
from ringtrain.train.trainer import FinishedRound, OtherModel, Trainer


def train(context: Context) -> None:
    """Goes back to the newest checkpoint, or to round 0, and trains all rounds that are left.

    A round is a transaction: whatever interrupts it, nothing of it remains, for every rank starts again from the same
    checkpoint. Raises BadConfiguration or DataError for what can never work, Disagreement when the ranks' states
    differ, and what heartbeats and collectives raise when the generation is over.
    """
    config = context.environment.trainer
    if config is None:
        raise BadConfiguration(
            "no trainer is configured: set spec.trainer, or spec.command for training code of your own"
        )
    prepare(config.threads, context.device)
    trainer = Trainer(config, context.environment.communication, _corpus(context, config), context.group)
    try:
        _restore(context, trainer)
        agree(context.group, trainer.round, trainer.digest())
        progress = Progress(round=trainer.round, total_rounds=config.rounds, loss=trainer.loss)
        context.beat(Phase.COMPILING, progress)
        _train_rounds(context, config, trainer)
        say(context.rank, f"final digest {trainer.parameters_digest()}")
    finally:
        trainer.close()


def _corpus(context: Context, config: TrainerConfig) -> Corpus:
    """Read once in a process."""
    corpus = context.state.get("corpus")
    if not isinstance(corpus, Corpus):
        context.beat(Phase.STARTING)
        context.state["corpus"] = corpus = load_corpus(config.data)
    return corpus


def _restore(context: Context, trainer: Trainer) -> None:
    restored = None
    settings = context.environment.checkpoint
    if settings is not None:
        context.beat(Phase.RESTORING)
        restored = Reader(Path(settings.directory), context.session, context.group).load()
    if restored is not None:
        _load(context, trainer, restored)
    source = f"checkpoint {restored.name}" if restored else "the seed"
    say(context.rank, f"generation {context.generation}: {context.world_size} ranks start from {source}")


def _load(context: Context, trainer: Trainer, restored: Restored) -> None:
    layout = trainer.bucket_layout
    try:
        trainer.load(restored.state)
    except OtherModel as error:
        raise BadConfiguration(
            f"checkpoint {restored.name} is of another model: {error}. Set spec.trainer.model as it was, or give the "
            "job an empty checkpoint directory"
        ) from error
    if restored.state.replicated["bucket_layout"] != layout:
        say(context.rank, "gradient buckets have changed since the checkpoint: bits may differ from an unbroken run's")
    if trainer.residuals_lost:
        say(context.rank, "error feedback starts at zero: its state in the checkpoint is of other settings")


def _train_rounds(context: Context, config: TrainerConfig, trainer: Trainer) -> None:
    settings = context.environment.checkpoint
    rounds, traffic = 0, None
    while trainer.round < config.rounds:
        phase = Phase.COMPILING if context.round is None else Phase.TRAINING
        # A hang from here on is one of the round, not of the checkpoint before it.
        context.beat(phase)
        context.round_started(trainer.round + 1)
        trainer.begin_round()
        while trainer.micro_batches < config.batch.accumulation:
            trainer.train_micro_batch()
            context.beat(phase)
        finished = trainer.finish_round()
        rounds += 1
        traffic = traffic + finished.traffic if traffic is not None else finished.traffic
        _tell(context, config, finished, communication_totals(trainer.codec, rounds, traffic))
        if settings is not None and (trainer.round % settings.every == 0 or trainer.round == config.rounds):
            _save(context, settings, trainer)


def _save(context: Context, settings: CheckpointSettings, trainer: Trainer) -> None:
    context.beat(Phase.CHECKPOINTING)
    writer = Writer(Path(settings.directory), context.session, context.generation, context.world_size)
    problem = writer.save(trainer.round, trainer.state())
    if problem:
        say(context.rank, f"no checkpoint of round {trainer.round}: {problem}")


def _tell(context: Context, config: TrainerConfig, finished: FinishedRound, communication: CommunicationTotals) -> None:
    traffic = finished.traffic
    speed = finished.tokens / traffic.round_seconds
    progress = Progress(
        round=finished.round,
        total_rounds=config.rounds,
        loss=finished.loss,
        tokens_per_second=speed,
        communication_share=traffic.share,
        communication=communication,
    )
    context.beat(Phase.TRAINING, progress)
    say(
        context.rank,
        f"round {finished.round}/{config.rounds} loss {finished.loss:.3f} tokens/s {speed:.0f} "
        f"communication {traffic.share:.0%}",
    )
