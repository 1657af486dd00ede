"""What must hold between the fields of a TrainingJob, beyond each field's own type and range."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ringtrain_operator.api import names
from ringtrain_operator.api.problem import Location, Problem
from ringtrain_operator.api.quantity import quantity
from ringtrain_operator.api.reserved import GROUP_KEYS, LABEL_PREFIX
from ringtrain_operator.api.spec import ClaimTemplate, TrainingJobSpec

_NO_FOLDER = "must be a folder within the volume: no leading / and no .. in it"
_UPWARD = re.compile(r"(^|/)\.\.(/|$)")


@dataclass(frozen=True, slots=True)
class Rule:
    reads: frozenset[str]
    """Fields of the spec, as users write them; the rule waits until these have the right types."""
    check: Callable[[TrainingJobSpec], Iterator[Problem]]


def name_problems(name: str) -> Iterator[Problem]:
    """What is wrong with a job's name."""
    location = ("metadata", "name")
    if len(name) > names.MAXIMUM_JOB_NAME:
        yield Problem(
            location,
            f"has {len(name)} characters, at most {names.MAXIMUM_JOB_NAME} fit: the pods' names "
            "<name>-<index>-<epoch> must stay within 63",
        )
    elif not re.fullmatch(names.DNS_LABEL, name):
        yield Problem(
            location,
            "must be lower-case letters, digits and dashes, begin with a letter and end with a letter or digit: "
            "it names the job's Service",
        )


def _program(spec: TrainingJobSpec) -> Iterator[Problem]:
    if spec.trainer is None and not spec.command:
        yield Problem(("spec",), "set exactly one of command and trainer: neither is set")
    if spec.trainer is not None and spec.command:
        yield Problem(("spec",), "set exactly one of command and trainer: both are set")
    if spec.args and not spec.command:
        yield Problem(("spec", "args"), "needs command: the built-in trainer takes no arguments")


def _volume(spec: TrainingJobSpec) -> Iterator[Problem]:
    if spec.checkpoint is None:
        return
    volume, location = spec.checkpoint.volume, ("spec", "checkpoint", "volume")
    if volume.sub_path is not None and (volume.sub_path.startswith("/") or _UPWARD.search(volume.sub_path)):
        yield Problem((*location, "subPath"), _NO_FOLDER)
    if volume.claim_template is not None:
        yield from _claim(volume.claim_template, spec.replicas, (*location, "claimTemplate"))


def _restore_from(spec: TrainingJobSpec) -> Iterator[Problem]:
    other = spec.checkpoint.restore_from if spec.checkpoint is not None else None
    if other is None:
        return
    location = ("spec", "checkpoint", "restoreFrom", "path")
    if other.claim_name is not None and other.path.startswith("/"):
        yield Problem(location, "must be a folder of the volume of claimName: remove the leading /, or claimName")
    elif _UPWARD.search(other.path):
        yield Problem(location, "must have no .. in it")


def _claim(template: ClaimTemplate, replicas: int, location: Location) -> Iterator[Problem]:
    modes = template.access_modes
    if quantity(template.storage) == 0:
        yield Problem((*location, "storage"), "must be more than 0")
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield Problem((*location, "accessModes"), "ReadWriteOncePod cannot be combined with other modes")
    if replicas > 1 and "ReadWriteMany" not in modes:
        yield Problem(
            (*location, "accessModes"),
            f"{replicas} replicas share the volume from several nodes: ReadWriteMany must be among the modes",
        )


def _resources(spec: TrainingJobSpec) -> Iterator[Problem]:
    root = ("spec", "resources")
    for field, amounts in (("requests", spec.resources.requests), ("limits", spec.resources.limits)):
        for resource, amount in amounts.items():
            yield from _resource((*root, field, resource), resource, amount)
    limits = dict(spec.resources.limits)
    if spec.device == "cuda":
        limits.setdefault(spec.gpu_resource, str(spec.procs_per_replica))
    for resource, request in spec.resources.requests.items():
        location, limit = (*root, "requests", resource), limits.get(resource)
        if limit is not None and quantity(request) > quantity(limit):
            yield Problem(location, f"{request} is more than the limit {limit}: raise the limit or lower the request")
        elif names.is_device(resource) and (limit is None or quantity(request) != quantity(limit)):
            yield Problem(location, "this resource cannot be overcommitted: set the same quantity in limits")


def _resource(location: Location, resource: str, amount: str) -> Iterator[Problem]:
    if not names.is_resource(resource):
        yield Problem(
            location,
            "is not a resource: use cpu, memory, ephemeral-storage, hugepages-<size> or a name with its domain, "
            "such as nvidia.com/gpu",
        )
    elif names.is_device(resource) and quantity(amount).denominator != 1:
        yield Problem(location, f"{amount} is not a whole number, and this resource cannot be divided")


def _gpus(spec: TrainingJobSpec) -> Iterator[Problem]:
    limit = spec.resources.limits.get(spec.gpu_resource)
    if spec.device == "cuda" and limit is not None and quantity(limit) < spec.procs_per_replica:
        yield Problem(
            ("spec", "resources", "limits", spec.gpu_resource),
            f"{limit} is too few for procsPerReplica {spec.procs_per_replica}: every rank needs a GPU of its own",
        )


def _communication(spec: TrainingJobSpec) -> Iterator[Problem]:
    if spec.communication.intra == "nccl" and spec.device == "cpu":
        yield Problem(("spec", "communication", "intra"), "nccl needs GPUs, and device is cpu: set auto or gloo")
    if spec.communication.intra == "gloo" and spec.device == "cuda":
        yield Problem(("spec", "communication", "intra"), "gloo sums on CPUs, and device is cuda: set auto or nccl")


def _mesh(spec: TrainingJobSpec) -> Iterator[Problem]:
    root = ("spec", "parallelism")
    misfit = spec.parallelism.misfit(spec.replicas, spec.procs_per_replica)
    if misfit:
        yield Problem((*root, "pipeline"), misfit)
    if spec.parallelism.sharding == "machine" and spec.procs_per_replica == 1:
        yield Problem(
            (*root, "sharding"),
            "machine divides states among the ranks of a machine, and procsPerReplica is 1: raise it, or set none",
        )


def _elastic(spec: TrainingJobSpec) -> Iterator[Problem]:
    if spec.elastic is None:
        return
    root, least = ("spec", "elastic"), spec.elastic.min_replicas
    if spec.checkpoint is None:
        yield Problem(root, "needs spec.checkpoint: training would start over with every change of size")
    if spec.fault_tolerance.recovery == "Exact":
        yield Problem(root, "another size gives other bits: remove it, or set faultTolerance.recovery to Live")
    if spec.communication.inter == "mpi":
        yield Problem(root, "is not offered with MPI: remove it, or set communication.inter to gloo")
    if least > spec.replicas:
        yield Problem((*root, "minReplicas"), f"{least} is more than replicas {spec.replicas}: lower it")
    elif misfit := spec.parallelism.misfit(least, spec.procs_per_replica):
        yield Problem((*root, "minReplicas"), misfit)


def _stages(spec: TrainingJobSpec) -> Iterator[Problem]:
    """Of the built-in trainer; what fits a user's own code is for that to say."""
    parallelism, root = spec.parallelism, ("spec", "parallelism")
    if spec.trainer is None or parallelism.pipeline == 1:
        return
    layers, _, _ = spec.trainer.model.shape
    sublayers = f"the model's {layers} layers have {2 * layers} sub-layers"
    if parallelism.stages > 2 * layers:
        yield Problem(
            (*root, "pipeline"),
            f"{parallelism.stages} stages are too many: {sublayers}, and a stage has at least one. Lower it, or raise "
            "trainer.model.layers",
        )
    if parallelism.boundaries is not None and parallelism.boundaries[-1] >= 2 * layers:
        yield Problem((*root, "boundaries"), f"{parallelism.boundaries[-1]} is beyond the last: {sublayers}, from 0")
    try:
        parallelism.microbatches_of(spec.trainer.batch.per_rank)
    except ValueError as error:
        yield Problem((*root, "microbatches"), str(error))


def _scheduling(spec: TrainingJobSpec) -> Iterator[Problem]:
    """What the template says too would win in silence."""
    scheduling, root = spec.scheduling, ("spec", "scheduling")
    for field, value in (
        ("schedulerName", scheduling.scheduler_name),
        ("priorityClassName", scheduling.priority_class_name),
    ):
        if value is not None and field in spec.template.spec:
            yield Problem((*root, field), f"spec.template.spec.{field} is set, too: remove one of them")
    if scheduling.gang == "Volcano" and scheduling.scheduler_name is None and "schedulerName" in spec.template.spec:
        yield Problem(
            ("spec", "template", "spec", "schedulerName"), "set spec.scheduling.schedulerName: gang is Volcano"
        )
    if scheduling.queue_name is not None and scheduling.gang not in ("Kueue", "Volcano"):
        yield Problem((*root, "queueName"), "is of gang Kueue and Volcano only: set one of them, or remove it")
    if scheduling.queue_name is None and scheduling.gang == "Kueue":
        yield Problem((*root, "queueName"), "is required with gang Kueue: name a LocalQueue of the job's namespace")


def _group(spec: TrainingJobSpec) -> Iterator[Problem]:
    """Of pods that another scheduler counts."""
    gang, location = spec.scheduling.gang, ("spec", "scheduling", "gang")
    if gang not in ("Kueue", "Volcano", "Coscheduling"):
        return
    if spec.elastic is not None:
        yield Problem(location, f"{gang} starts all replicas or none: remove spec.elastic, or set Operator")
    if spec.spare_replicas:
        yield Problem(location, f"{gang} would not count spares: set spec.spareReplicas to 0, or gang to Operator")
    for field, value in (
        ("nodeExclusion", spec.fault_tolerance.node_exclusion),
        ("preflight", spec.fault_tolerance.preflight),
    ):
        if gang == "Kueue" and value is not None:
            text = "Kueue wants replacements like the first pods, which may run on the same nodes: remove "
            yield Problem(location, f"{text}spec.faultTolerance.{field}")


def _metadata(spec: TrainingJobSpec) -> Iterator[Problem]:
    metadata, root = spec.template.metadata, ("spec", "template", "metadata")
    for label in metadata.labels:
        yield from _key((*root, "labels", label), label)
    for annotation in metadata.annotations:
        yield from _key((*root, "annotations", annotation), annotation)


def _key(location: Location, key: str) -> Iterator[Problem]:
    if key.startswith(LABEL_PREFIX):
        yield Problem(location, f"{LABEL_PREFIX} is reserved for the operator: use a prefix of your own")
    elif key in GROUP_KEYS:
        yield Problem(location, "is the operator's to set: see spec.scheduling.gang")
    elif not names.is_qualified_name(key):
        yield Problem(location, names.NOT_A_KEY)


RULES = (
    Rule(frozenset({"command", "args", "trainer"}), _program),
    Rule(frozenset({"checkpoint", "replicas"}), _volume),
    Rule(frozenset({"checkpoint"}), _restore_from),
    Rule(frozenset({"resources", "device", "gpuResource", "procsPerReplica"}), _resources),
    Rule(frozenset({"resources", "device", "gpuResource", "procsPerReplica"}), _gpus),
    Rule(frozenset({"communication", "device"}), _communication),
    Rule(frozenset({"parallelism", "replicas", "procsPerReplica"}), _mesh),
    Rule(
        frozenset(
            {"elastic", "replicas", "procsPerReplica", "parallelism", "checkpoint", "faultTolerance", "communication"}
        ),
        _elastic,
    ),
    Rule(frozenset({"parallelism", "trainer"}), _stages),
    Rule(frozenset({"scheduling", "template"}), _scheduling),
    Rule(frozenset({"scheduling", "elastic", "spareReplicas", "faultTolerance"}), _group),
    Rule(frozenset({"template"}), _metadata),
)
