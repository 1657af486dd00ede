"""The rules of rules.py that CEL can say, so that `kubectl apply` refuses what the operator would.

Each stands at an object of the schema and is evaluated where that object is present, after defaults were set. Those of
fields for which administrators may set others (defaultable.py) are not set: what such a field is where a job says
nothing, only the operator knows, and rules about it wait for a job that says it. Amounts of resources are left to the
operator, too: CEL knows quantities only since Kubernetes 1.29.
"""

from dataclasses import dataclass
from typing import get_args

from ringtrain.contract.parallelism import DEFAULT_STAGES_PER_RANK, ParallelismConfig
from ringtrain.contract.trainer_config import ModelConfig
from ringtrain_operator.api import names
from ringtrain_operator.api.reserved import LABEL_PREFIX
from ringtrain_operator.api.spec import CONTROLLER, TrainingJobSpec


@dataclass(frozen=True, slots=True)
class CelRule:
    location: tuple[str, ...]
    """The object in the schema that `self` is; () is the whole TrainingJob."""
    expression: str
    """True when the object is right."""
    message: str


_SIZES = get_args(ModelConfig.model_fields["size"].annotation)
_WIDTHS = {size: ModelConfig(size=size).shape[2] for size in _SIZES}
_HEADS = {size: ModelConfig(size=size).shape[1] for size in _SIZES}
_LAYERS = {size: ModelConfig(size=size).shape[0] for size in _SIZES}
# Kubernetes tries a rule on its object's bare default, too, where the default of size is not yet filled in.
_SIZE = f"has(self.size) ? self.size : '{ModelConfig().size}'"
_HAS_COMMAND = "(has(self.command) && size(self.command) > 0)"
_PIPELINE = "(has(self.pipeline) ? self.pipeline : 1)"
_INTERLEAVED = f"(has(self.schedule) ? self.schedule : '{ParallelismConfig().schedule}') == 'Interleaved1F1B'"
_STAGES_PER_RANK = "(has({0}.stagesPerRank) ? {0}.stagesPerRank : " + f"{DEFAULT_STAGES_PER_RANK})"
# Of the built-in trainer. Which batches a pipeline can cut without being told into how many parts, CEL cannot say.
_TRAINS = "!has(self.trainer) || !has(self.parallelism) || self.parallelism.pipeline == 1"
_SUBLAYERS = f"2 * (has(self.trainer.model.layers) ? self.trainer.model.layers : {_LAYERS}[self.trainer.model.size])"
_MICROBATCHES = "self.parallelism.microbatches"
_OWN_GROUP = "!has(self.scheduling) || !has(self.scheduling.gang) || self.scheduling.gang in ['None', 'Operator']"
# Who lists NVIDIA's GPUs means them, whatever the administrators' default.
_GPU_RESOURCE = f"(has(self.gpuResource) ? self.gpuResource : '{TrainingJobSpec.model_fields['gpu_resource'].default}')"
_GPUS = f"self.resources.limits[{_GPU_RESOURCE}]"
_MANAGED_BY = f"has({{0}}.managedBy) ? {{0}}.managedBy : '{CONTROLLER}'"
_RESERVED_PREFIX = f"self.all(key, !key.startsWith('{LABEL_PREFIX}'))"
_RESERVED_MESSAGE = f"{LABEL_PREFIX} is reserved for the operator: use a prefix of your own"

CEL_RULES = (
    CelRule(
        (),
        f"size(self.metadata.name) <= {names.MAXIMUM_JOB_NAME}",
        f"metadata.name: at most {names.MAXIMUM_JOB_NAME} characters fit: the pods' names <name>-<index>-<epoch> must "
        "stay within 63",
    ),
    CelRule(
        (),
        f"self.metadata.name.matches('{names.DNS_LABEL}')",
        "metadata.name: must be lower-case letters, digits and dashes, begin with a letter and end with a letter or "
        "digit: it names the job's Service",
    ),
    CelRule(("spec",), f"has(self.trainer) != {_HAS_COMMAND}", "set exactly one of command and trainer"),
    CelRule(
        ("spec",),
        f"!has(self.args) || size(self.args) == 0 || {_HAS_COMMAND}",
        "args needs command: the built-in trainer takes no arguments",
    ),
    CelRule(
        ("spec",),
        f"({_MANAGED_BY.format('self')}) == ({_MANAGED_BY.format('oldSelf')})",
        "managedBy cannot be changed: delete the job, and apply it anew",
    ),
    CelRule(
        ("spec", "faultTolerance"),
        "!has(self.rules) || self.rules.all(rule, (has(rule.exitCodes) && size(rule.exitCodes) > 0) || "
        "(has(rule.reasons) && size(rule.reasons) > 0) || (has(rule.podConditions) && size(rule.podConditions) > 0))",
        "set at least one of exitCodes, reasons and podConditions in every one of rules",
    ),
    CelRule(
        ("spec",),
        "self.replicas == 1 || !has(self.checkpoint) || !has(self.checkpoint.volume.claimTemplate) || "
        "!has(self.checkpoint.volume.claimTemplate.accessModes) || "
        "'ReadWriteMany' in self.checkpoint.volume.claimTemplate.accessModes",
        "several replicas share the checkpoint volume from several nodes: ReadWriteMany must be among the accessModes "
        "of checkpoint.volume.claimTemplate",
    ),
    CelRule(
        ("spec",),
        "self.device != 'cuda' || !has(self.resources) || !has(self.resources.limits) || "
        f"!({_GPU_RESOURCE} in self.resources.limits) || !string({_GPUS}).matches('^[0-9]{{1,9}}$') || "
        f"int({_GPUS}) >= self.procsPerReplica",
        "resources.limits has fewer GPUs than procsPerReplica: every rank needs a GPU of its own",
    ),
    CelRule(
        ("spec",),
        "self.device == 'cuda' || !has(self.communication) || !has(self.communication.intra) || "
        "self.communication.intra != 'nccl'",
        "communication.intra: nccl needs GPUs, and device is cpu: set auto or gloo",
    ),
    CelRule(
        ("spec",),
        "self.device == 'cpu' || !has(self.communication) || !has(self.communication.intra) || "
        "self.communication.intra != 'gloo'",
        "communication.intra: gloo sums on CPUs, and device is cuda: set auto or nccl",
    ),
    CelRule(
        ("spec", "communication"),
        "!has(self.errorFeedback) || self.errorFeedback == 'none' || !has(self.codec) || self.codec in ['zfp', 'int4']",
        "codecs none and bf16 lose too little to feed back: remove errorFeedback, or set codec to zfp or int4",
    ),
    CelRule(
        ("spec", "communication"),
        "!has(self.rate) || !has(self.codec) || self.codec == 'zfp'",
        "rate is of codec zfp only: remove rate",
    ),
    CelRule(
        ("spec", "communication"),
        "(!has(self.block) && !has(self.rotate)) || !has(self.codec) || self.codec == 'int4'",
        "block and rotate are of codec int4 only: remove them",
    ),
    CelRule(
        ("spec",),
        "!has(self.parallelism) || (self.replicas * self.procsPerReplica % self.parallelism.pipeline == 0 && "
        "(self.procsPerReplica % self.parallelism.pipeline == 0 || "
        "self.parallelism.pipeline % self.procsPerReplica == 0))",
        "parallelism.pipeline must divide replicas x procsPerReplica, and divide procsPerReplica or be a multiple of "
        "it",
    ),
    CelRule(
        ("spec",),
        "!has(self.parallelism) || self.parallelism.sharding == 'none' || self.procsPerReplica > 1",
        "parallelism.sharding: machine divides states among the ranks of a machine, and procsPerReplica is 1: raise "
        "it, or set none",
    ),
    CelRule(
        ("spec",),
        f"{_TRAINS} || self.parallelism.pipeline * (self.parallelism.schedule == 'Interleaved1F1B' ? "
        f"{_STAGES_PER_RANK.format('self.parallelism')} : 1) <= {_SUBLAYERS}",
        "parallelism.pipeline: a stage has at least one of the model's 2 x layers sub-layers: lower it, or raise "
        "trainer.model.layers",
    ),
    CelRule(
        ("spec",),
        f"{_TRAINS} || !has(self.parallelism.boundaries) || "
        f"self.parallelism.boundaries.all(boundary, boundary < {_SUBLAYERS})",
        "parallelism.boundaries must lie below the number of sub-layers, 2 x layers of trainer.model",
    ),
    CelRule(
        ("spec",),
        f"{_TRAINS} || !has({_MICROBATCHES}) || self.trainer.batch.perRank % {_MICROBATCHES} == 0",
        "parallelism.microbatches does not divide trainer.batch.perRank: change one of them",
    ),
    CelRule(
        ("spec",),
        f"{_TRAINS} || !has({_MICROBATCHES}) || self.parallelism.schedule != '1F1B' || "
        f"{_MICROBATCHES} >= self.parallelism.pipeline",
        "parallelism.microbatches: schedule 1F1B needs at least as many as pipeline",
    ),
    CelRule(
        ("spec",),
        f"{_TRAINS} || !has({_MICROBATCHES}) || self.parallelism.schedule != 'Interleaved1F1B' || "
        f"{_MICROBATCHES} < self.parallelism.pipeline || "
        f"{_MICROBATCHES} % ({_MICROBATCHES} / self.parallelism.pipeline) == 0",
        "parallelism.microbatches: schedule Interleaved1F1B needs a multiple of pipeline, or fewer",
    ),
    CelRule(
        ("spec",),
        "!has(self.elastic) || has(self.checkpoint)",
        "elastic needs checkpoint: training would start over with every change of size",
    ),
    CelRule(
        ("spec",),
        "!has(self.elastic) || !has(self.faultTolerance) || !has(self.faultTolerance.recovery) || "
        "self.faultTolerance.recovery != 'Exact'",
        "elastic: another size gives other bits: remove it, or set faultTolerance.recovery to Live",
    ),
    CelRule(
        ("spec",),
        "!has(self.elastic) || !has(self.communication) || !has(self.communication.inter) || "
        "self.communication.inter != 'mpi'",
        "elastic is not offered with MPI: remove it, or set communication.inter to gloo",
    ),
    CelRule(
        ("spec",),
        "!has(self.elastic) || self.elastic.minReplicas <= self.replicas",
        "elastic.minReplicas is more than replicas: lower it",
    ),
    CelRule(
        ("spec", "parallelism"),
        f"!has(self.stagesPerRank) || {_INTERLEAVED}",
        "stagesPerRank is of schedule Interleaved1F1B only: remove it, or set that schedule",
    ),
    CelRule(
        ("spec", "parallelism"),
        f"{_PIPELINE} > 1 || !(has(self.microbatches) || has(self.stagesPerRank) || has(self.boundaries))",
        "microbatches, stagesPerRank and boundaries are of a pipeline, and pipeline is 1: remove them, or raise "
        "pipeline",
    ),
    CelRule(
        ("spec", "parallelism"),
        f"{_PIPELINE} == 1 || !has(self.sharding) || self.sharding == 'none'",
        "sharding machine and a pipeline exclude each other: set sharding none, or pipeline 1",
    ),
    CelRule(
        ("spec", "parallelism"),
        f"{_PIPELINE} == 1 || !has(self.boundaries) || "
        f"size(self.boundaries) + 1 == {_PIPELINE} * ({_INTERLEAVED} ? {_STAGES_PER_RANK.format('self')} : 1)",
        "boundaries needs one entry for each stage but the first",
    ),
    CelRule(
        ("spec", "checkpoint", "volume"),
        "has(self.claimName) != has(self.claimTemplate)",
        "set exactly one of claimName and claimTemplate",
    ),
    CelRule(
        ("spec", "checkpoint", "volume"),
        r"!has(self.subPath) || !(self.subPath.startsWith('/') || self.subPath.matches('(^|/)[.][.](/|$)'))",
        "subPath must be a folder within the volume: no leading / and no .. in it",
    ),
    CelRule(
        ("spec", "checkpoint", "restoreFrom"),
        "!has(self.claimName) || !self.path.startsWith('/')",
        "path must be a folder of the volume of claimName: remove the leading /, or claimName",
    ),
    CelRule(
        ("spec", "checkpoint", "restoreFrom"),
        "!self.path.matches('(^|/)[.][.](/|$)')",
        "path must have no .. in it",
    ),
    CelRule(
        ("spec", "checkpoint", "volume", "claimTemplate"),
        "!string(self.storage).matches('^[0.]+([A-Za-z].*)?$')",
        "storage must be more than 0",
    ),
    CelRule(
        ("spec", "checkpoint", "volume", "claimTemplate"),
        "!has(self.accessModes) || size(self.accessModes) == 1 || !('ReadWriteOncePod' in self.accessModes)",
        "accessModes: ReadWriteOncePod cannot be combined with other modes",
    ),
    CelRule(
        ("spec", "trainer", "model"),
        f"(has(self.width) ? self.width : {_WIDTHS}[{_SIZE}]) % "
        f"(has(self.heads) ? self.heads : {_HEADS}[{_SIZE}]) == 0",
        "width is not a multiple of heads: set width or heads",
    ),
    CelRule(
        ("spec", "scheduling"),
        "!has(self.queueName) || !has(self.gang) || self.gang in ['Kueue', 'Volcano']",
        "queueName is of gang Kueue and Volcano only: set one of them, or remove it",
    ),
    CelRule(
        ("spec",),
        f"{_OWN_GROUP} || !has(self.elastic)",
        "scheduling.gang: Kueue, Volcano and Coscheduling start all replicas or none: remove elastic, or set Operator",
    ),
    CelRule(
        ("spec",),
        f"{_OWN_GROUP} || self.spareReplicas == 0",
        "scheduling.gang: Kueue, Volcano and Coscheduling would not count spares: set spareReplicas to 0, or gang to "
        "Operator",
    ),
    CelRule(
        ("spec",),
        "!has(self.scheduling) || !has(self.scheduling.gang) || self.scheduling.gang != 'Kueue' || "
        "!has(self.faultTolerance) || "
        "!(has(self.faultTolerance.nodeExclusion) || has(self.faultTolerance.preflight))",
        "scheduling.gang: Kueue wants replacements like the first pods, which may run on the same nodes: remove "
        "faultTolerance.nodeExclusion and preflight",
    ),
    CelRule(("spec", "template", "metadata", "labels"), _RESERVED_PREFIX, _RESERVED_MESSAGE),
    CelRule(("spec", "template", "metadata", "annotations"), _RESERVED_PREFIX, _RESERVED_MESSAGE),
)
