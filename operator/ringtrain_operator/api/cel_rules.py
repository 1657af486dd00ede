"""The rules of rules.py that CEL can say, so that `kubectl apply` refuses what the operator would.

Each stands at an object of the schema and is evaluated where that object is present, after defaults were set. Amounts
of resources are left to the operator: CEL knows quantities only since Kubernetes 1.29.
"""

from dataclasses import dataclass
from typing import get_args

from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.trainer_config import ModelConfig
from ringtrain_operator.api import names
from ringtrain_operator.api.reserved import LABEL_PREFIX


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
# Kubernetes tries a rule on its object's bare default, too, where the default of size is not yet filled in.
_SIZE = f"has(self.size) ? self.size : '{ModelConfig().size}'"
_CODEC = f"has(self.codec) ? self.codec : '{CommunicationConfig().codec}'"
_HAS_COMMAND = "(has(self.command) && size(self.command) > 0)"
_GPUS = "self.resources.limits[self.gpuResource]"
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
        "self.replicas == 1 || !has(self.checkpoint) || !has(self.checkpoint.volume.claimTemplate) || "
        "'ReadWriteMany' in self.checkpoint.volume.claimTemplate.accessModes",
        "several replicas share the checkpoint volume from several nodes: ReadWriteMany must be among the accessModes "
        "of checkpoint.volume.claimTemplate",
    ),
    CelRule(
        ("spec",),
        "self.device != 'cuda' || !has(self.resources) || !has(self.resources.limits) || "
        f"!(self.gpuResource in self.resources.limits) || !string({_GPUS}).matches('^[0-9]{{1,9}}$') || "
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
        ("spec", "communication"),
        f"!has(self.errorFeedback) || self.errorFeedback == 'none' || ({_CODEC}) in ['zfp', 'int4']",
        "codecs none and bf16 lose too little to feed back: remove errorFeedback, or set codec to zfp or int4",
    ),
    CelRule(
        ("spec", "communication"), f"!has(self.rate) || ({_CODEC}) == 'zfp'", "rate is of codec zfp only: remove rate"
    ),
    CelRule(
        ("spec", "communication"),
        f"(!has(self.block) && !has(self.rotate)) || ({_CODEC}) == 'int4'",
        "block and rotate are of codec int4 only: remove them",
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
        ("spec", "checkpoint", "volume", "claimTemplate"),
        "!string(self.storage).matches('^[0.]+([A-Za-z].*)?$')",
        "storage must be more than 0",
    ),
    CelRule(
        ("spec", "checkpoint", "volume", "claimTemplate"),
        "size(self.accessModes) == 1 || !('ReadWriteOncePod' in self.accessModes)",
        "accessModes: ReadWriteOncePod cannot be combined with other modes",
    ),
    CelRule(
        ("spec", "trainer", "model"),
        f"(has(self.width) ? self.width : {_WIDTHS}[{_SIZE}]) % "
        f"(has(self.heads) ? self.heads : {_HEADS}[{_SIZE}]) == 0",
        "width is not a multiple of heads: set width or heads",
    ),
    CelRule(("spec", "template", "metadata", "labels"), _RESERVED_PREFIX, _RESERVED_MESSAGE),
    CelRule(("spec", "template", "metadata", "annotations"), _RESERVED_PREFIX, _RESERVED_MESSAGE),
)
