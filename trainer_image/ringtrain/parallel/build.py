"""What a rank computes with: its part of the model, and how batches pass through it."""

from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain.models import build_model
from ringtrain.models.costs import sublayer_costs
from ringtrain.models.language_model import TIED
from ringtrain.models.stage import Stage, cut, of_rank
from ringtrain.parallel.part import Part
from ringtrain.parallel.partition import boundaries
from ringtrain.parallel.passes import Passes, Precision, WholeModel


def cut_model(config: TrainerConfig, parallelism: ParallelismConfig, vocabulary: int) -> tuple[Stage, ...]:
    """All stages of the pipeline. Raises ValueError when the model has too few sub-layers."""
    cuts = parallelism.boundaries
    if cuts is None:
        cuts = boundaries(sublayer_costs(config.model, vocabulary), parallelism.stages)
    return cut(2 * config.model.shape[0], cuts)


def build(
    config: TrainerConfig,
    parallelism: ParallelismConfig,
    vocabulary: int,
    group: Group,
    precision: Precision,
    meter: Meter,
) -> Part:
    """Connects the ranks that hold a copy of the model together: raises PeerLost, or what polling raises; ValueError
    for what cannot be cut."""
    if group.mesh.shards > 1:
        # FSDP2 takes longer to import than torch itself, which a rank that does not shard should not wait for.
        from ringtrain.parallel.sharding import build_shard

        return build_shard(config, parallelism, vocabulary, group, precision, meter)
    _, place = group.mesh.place(group.rank)
    stages = tuple(of_rank(cut_model(config, parallelism, vocabulary), place, parallelism.pipeline))
    model = build_model(config.model, vocabulary, config.seed, stages, str(group.device))
    model.configure(parallelism)
    parameters = dict(model.named_parameters())
    if parallelism.pipeline == 1:
        return Part(model=model, stages=stages, passes=WholeModel(model, precision), parameters=parameters)
    # It imports the compiler, which a rank without a pipeline should not wait for.
    from ringtrain.parallel.pipeline import Pipeline

    shape = (config.batch.per_rank, config.model.context_length, config.model.shape[2], vocabulary)
    passes: Passes = Pipeline(model, stages, parallelism, shape, group, precision)
    shared = frozenset({TIED} & parameters.keys())
    return Part(model=model, stages=stages, passes=passes, parameters=parameters, shared=shared, peers=group.pipe())
