"""The training function of the built-in trainer: entered anew in every generation."""

import math
from contextlib import nullcontext
from dataclasses import dataclass

import torch

from ringtrain.checkpoint.reader import Restored
from ringtrain.checkpoint.saver import Saver
from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.report import TrafficTotals
from ringtrain.comm.verify import agree
from ringtrain.contract.environment import WarmStart
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import CommunicationTotals, Progress
from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain.data.corpus import Corpus, load_corpus
from ringtrain.models.costs import model_flops, sublayer_costs
from ringtrain.models.peaks import peak_flops
from ringtrain.models.stage import of_rank
from ringtrain.parallel.build import cut_model
from ringtrain.parallel.compiler import require_compiler
from ringtrain.parallel.describe import stage_texts
from ringtrain.runtime.context import Context
from ringtrain.runtime.errors import BadConfiguration
from ringtrain.runtime.output import say
from ringtrain.train.evaluation import Evaluation, load_held_out
from ringtrain.train.process import prepare
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
    environment = context.environment
    require_compiler(environment.parallelism, context.device)
    corpora = _corpora(context, config)
    trainer = Trainer(config, environment.parallelism, environment.communication, corpora.training, context.group)
    try:
        _tell_parts(context, config, corpora.training.vocabulary)
        restored = _restore(context, trainer)
        agree(context.group, trainer.round, trainer.digest())
        for logger in config.loggers:
            context.training.log_to(logger)
        progress = Progress(round=trainer.round, total_rounds=config.rounds, loss=trainer.loss)
        context.beat(Phase.COMPILING, progress)
        saver = context.checkpoints.saver(restored) if context.checkpoints is not None else None
        try:
            work = _work(context, config, corpora.training.vocabulary)
            _train_rounds(context, config, trainer, _evaluation(context, config, corpora.held_out), saver, work)
        finally:
            if saver is not None:
                saver.close()
        say(context.rank, f"final digest {trainer.parameters_digest()}")
    finally:
        trainer.close()


@dataclass(frozen=True, slots=True)
class _Corpora:
    training: Corpus
    held_out: Corpus | None


def _corpora(context: Context, config: TrainerConfig) -> _Corpora:
    """Read once in a process."""
    corpora = context.state.get("corpora")
    if not isinstance(corpora, _Corpora):
        context.beat(Phase.STARTING)
        context.state["corpora"] = corpora = _Corpora(load_corpus(config.data), load_held_out(config))
    return corpora


def _evaluation(context: Context, config: TrainerConfig, held_out: Corpus | None) -> Evaluation | None:
    if config.evaluation is None or held_out is None:
        return None
    return Evaluation(config, config.evaluation, held_out, context.group)


def _tell_parts(context: Context, config: TrainerConfig, vocabulary: int) -> None:
    """Says who holds which part of the model."""
    parallelism = context.environment.parallelism
    if parallelism.pipeline == 1:
        return
    stages = cut_model(config, parallelism, vocabulary)
    texts = stage_texts(stages, sublayer_costs(config.model, vocabulary))
    _, place = context.group.mesh.place(context.rank)
    context.session.holds(" + ".join(texts[stage.index] for stage in of_rank(stages, place, parallelism.pipeline)))
    for stage, text in zip(stages, texts, strict=True):
        say(context.rank, f"rank {stage.index % parallelism.pipeline} of each pipeline: {text}")


def _restore(context: Context, trainer: Trainer) -> Restored | None:
    checkpoints = context.checkpoints
    restored, source = None, "the seed"
    if checkpoints is not None:
        context.beat(Phase.RESTORING)
        restored = checkpoints.newest(trainer.needs)
        if restored is None and checkpoints.warm_start is not None:
            source = _begin_with(trainer, checkpoints.load_warm_start(trainer.needs), checkpoints.warm_start)
    if restored is not None:
        source = f"checkpoint {restored.name}"
        _load(context, trainer, restored)
    say(context.rank, f"generation {context.generation}: {context.world_size} ranks start from {source}")
    return restored


def _begin_with(trainer: Trainer, other: Restored, settings: WarmStart) -> str:
    try:
        trainer.begin_with(other.state, optimizer=settings.optimizer)
    except OtherModel as error:
        raise BadConfiguration(
            f"checkpoint {other.name} in {settings.directory} is of another model: {error}. Set spec.trainer.model as "
            "it was there, or remove spec.checkpoint.restoreFrom"
        ) from error
    return f"the parameters of checkpoint {other.name} in {settings.directory}"


def _load(context: Context, trainer: Trainer, restored: Restored) -> None:
    try:
        trainer.load(restored.state)
    except OtherModel as error:
        raise BadConfiguration(
            f"checkpoint {restored.name} is of another model: {error}. Set spec.trainer.model as it was, or give the "
            "job an empty checkpoint directory"
        ) from error
    if trainer.layout_changed:
        say(context.rank, "gradient buckets have changed since the checkpoint: bits may differ from an unbroken run's")
    if trainer.residuals_lost:
        say(context.rank, "error feedback starts at zero: its state was lost, or is of other settings")


@dataclass(frozen=True, slots=True)
class _Work:
    flops_per_token: int
    peak_flops: float | None
    """Of all ranks' devices."""


def _work(context: Context, config: TrainerConfig, vocabulary: int) -> _Work:
    peak = None
    if context.device.type == "cuda":
        precision = context.environment.parallelism.precision
        peak = peak_flops(torch.cuda.get_device_name(context.device), precision)
    return _Work(model_flops(config.model, vocabulary), peak and peak * context.world_size)


def _train_rounds(
    context: Context,
    config: TrainerConfig,
    trainer: Trainer,
    evaluation: Evaluation | None,
    saver: Saver | None,
    work: _Work,
) -> None:
    totals = TrafficTotals()
    held_out_loss: float | None = None
    while trainer.round < config.rounds:
        phase = Phase.COMPILING if context.round is None else Phase.TRAINING
        # A hang from here on is one of the round, not of the checkpoint before it.
        context.beat(phase)
        trainer.begin_round()
        context.round_started(trainer.round + 1)
        while trainer.micro_batches < config.batch.accumulation:
            trainer.train_micro_batch()
            context.beat(phase)
        if saver is not None:
            finished = trainer.finish_round(saver.votes(), saver.before_step)
        else:
            finished = trainer.finish_round(Votes(), lambda: None)
        with saver.keeping(trainer.round, finished.votes, trainer.state) if saver is not None else nullcontext():
            communication = totals.add(trainer.codec, finished.traffic)
            if evaluation is not None and (trainer.round % evaluation.every == 0 or trainer.round == config.rounds):
                if held_out_loss is None and context.environment.parallelism.compile:
                    # Forward passes alone are compiled anew.
                    context.beat(Phase.COMPILING)
                held_out_loss = trainer.evaluate(evaluation)
                say(context.rank, f"round {trainer.round}/{config.rounds} evaluation loss {held_out_loss:.3f}")
            progress = _progress(config, finished, held_out_loss, communication, work)
            if saver is not None:
                progress = progress.model_copy(update={"checkpoints": saver.totals})
            _tell(context, progress, finished.skipped)
            if saver is not None:
                saver.end_round(trainer.round, finished.votes, trainer.state)
    if saver is not None:
        saver.finish(trainer.round, trainer.state)


def _progress(
    config: TrainerConfig,
    finished: FinishedRound,
    held_out_loss: float | None,
    communication: CommunicationTotals,
    work: _Work,
) -> Progress:
    rate = finished.tokens / finished.traffic.round_seconds
    return Progress(
        round=finished.round,
        total_rounds=config.rounds,
        loss=finished.loss,
        evaluation_loss=held_out_loss,
        gradient_norm=finished.gradient_norm if math.isfinite(finished.gradient_norm) else None,
        tokens_per_second=rate,
        flops_per_second=rate * work.flops_per_token,
        peak_flops_per_second=work.peak_flops,
        communication_share=finished.traffic.share,
        communication=communication,
    )


def _tell(context: Context, progress: Progress, skipped: bool) -> None:
    context.beat(Phase.TRAINING, progress)
    context.training.loggers.log(progress)
    say(
        context.rank,
        f"round {progress.round}/{progress.total_rounds} loss {progress.loss:.3f} "
        f"tokens/s {progress.tokens_per_second:.0f} communication {progress.communication_share:.0%}"
        + " skipped: gradients overflowed fp16"
        * skipped,
    )
