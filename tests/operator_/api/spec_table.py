"""Good and bad TrainingJobs, and where each bad one is caught on its way into a cluster."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

Spec = dict[str, Any]
Caught = Literal["schema", "cel", "operator"]

TRAINER: Spec = {"rounds": 100, "data": {"paths": ["{stdlib}/**/*.py"]}}
VOLUME: Spec = {"volume": {"claimName": "checkpoints"}}
CLAIM: Spec = {"volume": {"claimTemplate": {"storage": "100Gi"}}}


@dataclass(frozen=True)
class Good:
    title: str
    spec: Spec
    name: str = "job"


@dataclass(frozen=True)
class Bad:
    title: str
    spec: Spec
    path: str
    """Of the field that is blamed."""
    words: str
    """Part of what is said about it."""
    caught: Caught
    """`schema` and `cel` at kubectl apply; `operator` in the job's status."""
    name: str = field(default="job")


def spec(**fields: Any) -> Spec:
    """A spec of the built-in trainer with `fields` in place of its own; None removes one."""
    merged: Mapping[str, Any] = {"image": "trainer:1", "trainer": deepcopy(TRAINER)} | fields
    return {name: value for name, value in merged.items() if value is not None}


def own(**fields: Any) -> Spec:
    """A spec of a user's own program."""
    return spec(trainer=None, command=["python", "train.py"], **fields)


def model(**fields: Any) -> Spec:
    return spec(trainer=TRAINER | {"model": fields})


def template(**fields: Any) -> Spec:
    """A spec with a partial PodSpec."""
    return spec(template={"spec": fields})


def container(**fields: Any) -> Spec:
    """A spec with overrides of the training container."""
    return template(containers=[{"name": "trainer"} | fields])


def pipeline(trained: Spec | None = None, **fields: Any) -> Spec:
    """Two machines of four ranks; `trained` has fields of the trainer."""
    return spec(procsPerReplica=4, replicas=2, trainer=TRAINER | (trained or {}), parallelism=fields)


def own_pipeline(**fields: Any) -> Spec:
    return own(procsPerReplica=4, replicas=2, parallelism=fields)


def volume(**fields: Any) -> Spec:
    return spec(checkpoint={"volume": fields})


def restore_from(**fields: Any) -> Spec:
    return spec(checkpoint={"volume": {"claimName": "a"}, "restoreFrom": fields})


def claim(replicas: int = 1, **fields: Any) -> Spec:
    return spec(replicas=replicas, checkpoint={"volume": {"claimTemplate": {"storage": "1Gi"} | fields}})


GOOD = (
    Good("the least of the built-in trainer", spec()),
    Good("the least of an own program", own()),
    Good("one letter as name", spec(), "a"),
    Good("the longest name", spec(), "a" * 52),
    Good("dashes and digits in the name", spec(), "gpt-2-run-7"),
    Good("arguments of an own program", own(args=["--epochs", "3"])),
    Good("an empty list of arguments", spec(args=[])),
    Good("the largest job", spec(replicas=9999, procsPerReplica=64)),
    Good("on CPUs", spec(device="cpu", resources={"limits": {"cpu": 2, "memory": "4Gi"}})),
    Good("GPUs by another name", spec(gpuResource="example.com/gpu", procsPerReplica=8)),
    Good("as many GPUs as ranks", spec(procsPerReplica=8, resources={"limits": {"nvidia.com/gpu": "8"}})),
    Good("more GPUs than ranks", spec(procsPerReplica=4, resources={"limits": {"nvidia.com/gpu": 8}})),
    Good("a request of the default number of GPUs", spec(resources={"requests": {"nvidia.com/gpu": 1}})),
    Good("few GPUs that a CPU job does not use", spec(device="cpu", resources={"limits": {"nvidia.com/gpu": 0}})),
    Good("RDMA devices and huge pages", spec(resources={"limits": {"rdma/hca_a": 1, "hugepages-2Mi": "64Mi"},
                                                        "requests": {"hugepages-2Mi": "64Mi"}})),
    Good("equal amounts in other units", spec(resources={"requests": {"cpu": "2000m"}, "limits": {"cpu": 2}})),
    Good("requests without limits", spec(resources={"requests": {"cpu": ".5", "memory": "1e9"}})),
    Good("large shared memory", spec(shmSize="64Gi")),
    Good("an existing claim", spec(replicas=4, checkpoint=VOLUME)),
    Good("communication", spec(communication={"codec": "zfp", "rate": 8, "errorFeedback": "damped", "algorithm": "ring",
        "intra": "auto", "inter": "mpi", "warmupRounds": 50, "bucketMiB": 0.5, "overlap": False, "verify": True})),
    Good("codec int4", spec(communication={"codec": "int4", "block": 32, "rotate": True, "errorFeedback": "plain"})),
    Good("codec none", spec(communication={"codec": "none", "errorFeedback": "none"})),
    Good("nccl on GPUs", spec(communication={"intra": "nccl"})),
    Good("gloo without GPUs", spec(device="cpu", communication={"intra": "gloo"})),
    Good("a pipeline", pipeline(pipeline=4, microbatches=8, schedule="GPipe", boundaries=[1, 2, 7], precision="bf16",
                                activationCheckpointing=True, compile=True)),
    Good("a pipeline of two machines", pipeline({"model": {"layers": 5}}, pipeline=8)),
    Good("a pipeline of several machines", spec(replicas=6, procsPerReplica=2, parallelism={"pipeline": 4})),
    Good("interleaved stages", pipeline({"model": {"size": "base"}}, pipeline=2, schedule="Interleaved1F1B",
                                        stagesPerRank=3, microbatches=8, boundaries=[1, 2, 3, 4, 23])),
    Good("fewer micro-batches than interleaved ranks", pipeline({"batch": {"perRank": 3}}, pipeline=4, microbatches=3,
                                                                schedule="Interleaved1F1B")),
    Good("sharding inside machines", pipeline(sharding="machine")),
    Good("a pipeline of an own program", own_pipeline(pipeline=2, microbatches=1, boundaries=[4000])),
    Good("a claim of its own", spec(replicas=4, checkpoint=CLAIM | {"every": 50, "keep": 1})),
    Good("a claim of one node for one replica", claim(accessModes=["ReadWriteOnce"], storageClassName="fast.ssd")),
    Good("a claim of one pod for one replica", claim(accessModes=["ReadWriteOncePod"])),
    Good("a claim with several modes", claim(3, accessModes=["ReadWriteOnce", "ReadWriteMany"], storageClassName="")),
    Good("a folder of the volume", volume(claimName="team", subPath="runs/..today/gpt")),
    Good("every tier of checkpoints", spec(checkpoint=CLAIM | {"memoryEvery": 10, "replicate": "Always", "keepEvery": 7,
                                                              "saveOnPreemption": False})),
    Good("no snapshots in memory", spec(checkpoint=CLAIM | {"memoryEvery": 0, "replicate": "Never"})),
    Good("another job's parameters", restore_from(path="runs/..today", claimName="team", optimizer=True)),
    Good("parameters that are mounted", restore_from(path="/mnt/pretrained")),
    Good("no restarts", spec(faultTolerance={"maxRestarts": 0, "nodeLossSeconds": 1})),
    Good("spares", spec(spareReplicas=2)),
    Good("fewer replicas will do", spec(replicas=4, checkpoint=VOLUME, elastic={"minReplicas": 2})),
    Good("bad nodes are kept off", spec(faultTolerance={"nodeExclusion": {"afterFailures": 2, "maxNodes": 3}})),
    Good("machines are checked", spec(faultTolerance={"preflight": {"slowerThan": 1.5}, "timeouts": {"checking": 9}})),
    Good("machines are checked by default bounds", spec(faultTolerance={"preflight": {}})),
    Good("what is done about failures", spec(faultTolerance={"restartWindowSeconds": 86400, "rules": [
        {"action": "FailJob", "exitCodes": [70, 255], "reasons": ["UserError"]},
        {"action": "RestartUncounted", "podConditions": ["DisruptionTarget"]}, {"action": "Ignore", "reasons": ["X"]},
        {"action": "Restart", "reasons": ["OutOfnvidia.com/gpu"]}]})),
    Good("pods by another scheduler, close to each other", spec(scheduling={
        "schedulerName": "fair", "priorityClassName": "high", "topologyKey": "topology.kubernetes.io/zone",
        "topologyPolicy": "Required"})),
    Good("a gang of the operator's", spec(scheduling={"gang": "Operator"}, spareReplicas=1)),
    Good("a pod group of Kueue", spec(scheduling={"gang": "Kueue", "queueName": "a", "priorityClassName": "high"})),
    Good("a pod group of Volcano", spec(scheduling={"gang": "Volcano", "queueName": "team-a"})),
    Good("a pod group in Volcano's default queue", spec(scheduling={"gang": "Volcano"})),
    Good("a pod group of scheduler-plugins", spec(scheduling={"gang": "Coscheduling", "schedulerName": "plugins"})),
    Good("pods close to each other", spec(scheduling={"topologyKey": "rack"})),
    Good("a job's life", spec(suspend=True, activeDeadlineSeconds=3600, pendingDeadlineSeconds=1,
                              ttlSecondsAfterFinished=0, cleanPodPolicy="None", managedBy="ringtrain.io/operator")),
    Good("another controller's job", spec(managedBy="kueue.x-k8s.io/multikueue")),
    Good("a claim that goes with the job", claim(whenDeleted="Delete")),
    Good("short time-outs", spec(faultTolerance={"timeouts": {"training": 0.5, "starting": 60}})),
    Good("an encoder", model(kind="encoder", size="base")),
    Good("a model of its own", model(layers=3, heads=5, width=100, contextLength=64, dropout=0.1)),
    Good("other heads for a size's width", model(size="small", heads=12)),
    Good("a tokenizer file", spec(trainer=TRAINER | {"data": {"paths": ["/data/*.txt"], "tokenizer": "/data/t.json"}})),
    Good("whole numbers for numbers", spec(trainer=TRAINER | {"optimizer": {"learningRate": 1, "weightDecay": 0}})),
    Good("labels and annotations", spec(template={"metadata": {
        "labels": {"team": "nlp", "example.com/cost-center": ""}, "annotations": {"note": "any text, at length"}}})),
    Good("where pods go", template(nodeSelector={"zone": "a"}, tolerations=[{"operator": "Exists"}],
                                   priorityClassName="high", schedulerName="volcano", affinity={"nodeAffinity": {}})),
    Good("the training container's overrides", container(
        env=[{"name": "NCCL_DEBUG", "value": "INFO"},
             {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "t", "key": "k"}}}],
        securityContext={"capabilities": {"add": ["IPC_LOCK"]}}, ports=[{"containerPort": 9000}])),
    Good("data volumes", template(
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                 {"name": "cache", "emptyDir": {"sizeLimit": "10Gi"}}],
        containers=[{"name": "trainer", "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True},
                                                         {"name": "cache", "mountPath": "/tmp/cache"}]}])),
    Good("helpers beside the training container", template(
        initContainers=[{"name": "fetch", "image": "fetch:1", "resources": {"limits": {"cpu": 0.5, "memory": 1000000}},
                         "volumeMounts": [{"name": "checkpoints", "mountPath": "/c"}]}],
        containers=[{"name": "logs", "image": "logs:1", "readinessProbe": {"tcpSocket": {"port": "http"}}}])),
    Good("defaults of the job taken back", template(
        securityContext={"runAsUser": None, "seccompProfile": None}, nodeSelector={"zone": None},
        containers=[{"name": "trainer", "securityContext": None}])),
    Good("security of the pod", template(
        securityContext={"runAsUser": 1000, "fsGroup": 1000}, serviceAccountName="trainer",
        imagePullSecrets=[{"name": "registry"}], terminationGracePeriodSeconds=600, runtimeClassName="nvidia")),
)  # fmt: skip

BAD = (
    # Names.
    Bad("a name that is too long", spec(), "metadata.name", "at most 52", "cel", "a" * 53),
    Bad("a name that begins with a digit", spec(), "metadata.name", "begin with a letter", "cel", "7b"),
    Bad("a name with a dot", spec(), "metadata.name", "lower-case letters", "cel", "llama-3.1"),
    # Fields.
    Bad("no image", spec(image=None), "spec.image", "or have an administrator name one", "operator"),
    Bad("an empty image", spec(image=""), "spec.image", "empty", "schema"),
    Bad("an image with a space", spec(image="trainer 1"), "spec.image", "spaces", "schema"),
    Bad("an unknown field", spec(replica=2), "spec.replica", "did you mean replicas?", "schema"),
    Bad("a field in the wrong place", spec(nodeSelector={}), "spec.nodeSelector", "unknown field", "schema"),
    Bad("a field in snake case", spec(procs_per_replica=2), "spec.procs_per_replica", "procsPerReplica?", "schema"),
    Bad("no replicas", spec(replicas=0), "spec.replicas", "at least 1, not 0", "schema"),
    Bad("replicas as text", spec(replicas="3"), "spec.replicas", "whole number", "schema"),
    Bad("half a replica", spec(replicas=1.5), "spec.replicas", "whole number", "schema"),
    Bad("too many replicas", spec(replicas=10000), "spec.replicas", "at most 9999", "schema"),
    Bad("an unknown device", spec(device="tpu"), "spec.device", 'cuda or cpu, not "tpu"', "schema"),
    Bad("an unknown pull policy", spec(imagePullPolicy="Sometimes"), "spec.imagePullPolicy", "IfNotPresent", "schema"),
    Bad("a command as text", spec(trainer=None, command="python train.py"), "spec.command", "list", "schema"),
    Bad("a number among the arguments", own(args=[3]), "spec.args[0]", "string", "schema"),
    # Program.
    Bad("neither command nor trainer", spec(trainer=None), "spec", "neither is set", "cel"),
    Bad("an empty command", spec(trainer=None, command=[]), "spec", "neither is set", "cel"),
    Bad("command and trainer", spec(command=["python"]), "spec", "both are set", "cel"),
    Bad("arguments for the trainer", spec(args=["--epochs"]), "spec.args", "needs command", "cel"),
    # Trainer.
    Bad("no rounds", spec(trainer=TRAINER | {"rounds": 0}), "spec.trainer.rounds", "at least 1", "schema"),
    Bad("no data", spec(trainer={"rounds": 1}), "spec.trainer.data", "is required", "schema"),
    Bad("no paths", spec(trainer=TRAINER | {"data": {"paths": []}}), "spec.trainer.data.paths", "at least 1", "schema"),
    Bad("an unknown size", model(size="huge"), "spec.trainer.model.size", "tiny", "schema"),
    Bad("an unknown kind", model(kind="rnn"), "spec.trainer.model.kind", "gpt or encoder", "schema"),
    Bad("all dropped", model(dropout=1), "spec.trainer.model.dropout", "less than 1", "schema"),
    Bad("heads that do not divide the width", model(width=100, heads=3), "spec.trainer.model", "width 100", "cel"),
    Bad("heads that do not divide a size's width", model(size="base", heads=7), "spec.trainer.model", "heads 7", "cel"),
    Bad("a width that a size's heads do not divide", model(size="base", width=100), "spec.trainer.model", "width 100",
        "cel"),
    Bad("a tokenizer by name", spec(trainer=TRAINER | {"data": {"paths": ["x"], "tokenizer": "gpt2"}}),
        "spec.trainer.data.tokenizer", ".json", "schema"),
    Bad("no learning rate", spec(trainer=TRAINER | {"optimizer": {"learningRate": 0}}),
        "spec.trainer.optimizer.learningRate", "more than 0", "schema"),
    # Resources.
    Bad("a quantity in words", spec(shmSize="lots"), "spec.shmSize", "such as 500m", "schema"),
    Bad("a quantity with a wrong unit", spec(resources={"limits": {"memory": "4GB"}}), "spec.resources.limits.memory",
        "16Gi", "schema"),
    Bad("a negative quantity", spec(resources={"limits": {"cpu": -1}}), "spec.resources.limits.cpu", "not negative",
        "schema"),
    Bad("a negative quantity as text", spec(resources={"limits": {"cpu": "-1"}}), "spec.resources.limits.cpu",
        "not negative", "schema"),
    Bad("a fraction without quotes", spec(resources={"limits": {"cpu": 0.5}}), "spec.resources.limits.cpu",
        'in quotes, as "0.5"', "schema"),
    Bad("more requested than allowed", spec(resources={"requests": {"cpu": "3"}, "limits": {"cpu": "2500m"}}),
        "spec.resources.requests.cpu", "more than the limit", "operator"),
    Bad("an unknown resource", spec(resources={"limits": {"gpu": 1}}), "spec.resources.limits.gpu",
        "such as nvidia.com/gpu", "operator"),
    Bad("half a GPU", spec(resources={"limits": {"nvidia.com/gpu": "1500m"}}),
        "spec.resources.limits[nvidia.com/gpu]", "whole number", "operator"),
    Bad("fewer GPUs requested than allowed",
        spec(resources={"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}),
        "spec.resources.requests[nvidia.com/gpu]", "overcommitted", "operator"),
    Bad("fewer GPUs than ranks", spec(procsPerReplica=8, resources={"limits": {"nvidia.com/gpu": "4"}}),
        "spec.resources.limits[nvidia.com/gpu]", "4 is too few", "cel"),
    Bad("a GPU resource without a domain", spec(gpuResource="gpu"), "spec.gpuResource", "nvidia.com/gpu", "schema"),
    # Communication.
    Bad("an unknown codec", spec(communication={"codec": "gzip"}), "spec.communication.codec", "zfp", "schema"),
    Bad("too few bits", spec(communication={"rate": 2}), "spec.communication.rate", "at least 3", "schema"),
    Bad("too many bits", spec(communication={"rate": 17}), "spec.communication.rate", "at most 16", "schema"),
    Bad("bits of another codec", spec(communication={"codec": "int4", "rate": 4}), "spec.communication",
        "remove rate", "cel"),
    Bad("a block of another codec", spec(communication={"block": 32}), "spec.communication", "remove", "operator"),
    Bad("a rotation of another codec", spec(communication={"codec": "bf16", "rotate": True}), "spec.communication",
        "remove", "cel"),
    Bad("error feedback without errors", spec(communication={"codec": "bf16", "errorFeedback": "plain"}),
        "spec.communication", "remove errorFeedback", "cel"),
    Bad("nccl without GPUs", spec(device="cpu", communication={"intra": "nccl"}), "spec.communication.intra",
        "needs GPUs", "cel"),
    Bad("gloo beside GPUs", spec(communication={"intra": "gloo"}), "spec.communication.intra", "sums on CPUs", "cel"),
    Bad("a bucket of nothing", spec(communication={"bucketMiB": 0}), "spec.communication.bucketMiB", "at least 0.001",
        "schema"),
    # Parallelism.
    Bad("no pipeline", pipeline(pipeline=0), "spec.parallelism.pipeline", "at least 1", "schema"),
    Bad("an unknown schedule", pipeline(schedule="ZeroBubble"), "spec.parallelism.schedule", "1F1B", "schema"),
    Bad("a pipeline that does not divide the ranks", pipeline({"batch": {"perRank": 12}}, pipeline=3),
        "spec.parallelism.pipeline", "divide the 8 ranks", "cel"),
    Bad("a pipeline across parts of machines", spec(replicas=3, procsPerReplica=4, parallelism={"pipeline": 6}),
        "spec.parallelism.pipeline", "1, 2, 4, 12 would fit", "cel"),
    Bad("sharding of one rank a machine", spec(parallelism={"sharding": "machine"}), "spec.parallelism.sharding",
        "procsPerReplica is 1", "cel"),
    Bad("sharding of a pipeline", pipeline(pipeline=2, sharding="machine"), "spec.parallelism", "exclude", "cel"),
    Bad("more stages than sub-layers", pipeline({"model": {"layers": 1}}, pipeline=4), "spec.parallelism.pipeline",
        "4 stages are too many", "cel"),
    Bad("more interleaved stages than a size's sub-layers",
        pipeline({"model": {"size": "nano"}}, pipeline=4, schedule="Interleaved1F1B"), "spec.parallelism.pipeline",
        "2 layers have 4 sub-layers", "cel"),
    Bad("a boundary beyond the model", pipeline(pipeline=2, boundaries=[8]), "spec.parallelism.boundaries",
        "8 is beyond the last", "cel"),
    Bad("boundaries that fall", pipeline(pipeline=4, boundaries=[1, 5, 3]), "spec.parallelism", "must rise",
        "operator"),
    Bad("too few boundaries", pipeline(pipeline=4, boundaries=[4]), "spec.parallelism", "4 stages need 3", "cel"),
    Bad("micro-batches that do not divide the batch", pipeline(pipeline=2, microbatches=3),
        "spec.parallelism.microbatches", "does not divide batch.perRank 8", "cel"),
    Bad("fewer micro-batches than ranks in turn", pipeline(pipeline=4, microbatches=2),
        "spec.parallelism.microbatches", "at least as many parts as pipeline, 4", "cel"),
    Bad("micro-batches that do not interleave", pipeline({"batch": {"perRank": 9}}, pipeline=4, microbatches=9,
        schedule="Interleaved1F1B"), "spec.parallelism.microbatches", "a multiple of pipeline, 4", "cel"),
    Bad("a batch that cannot be cut", pipeline({"batch": {"perRank": 1}}, pipeline=2),
        "spec.parallelism.microbatches", "A multiple of 2 sequences can", "operator"),
    Bad("micro-batches without a pipeline", pipeline(microbatches=2), "spec.parallelism", "raise pipeline", "cel"),
    Bad("several stages a rank in turn", pipeline(pipeline=2, stagesPerRank=2), "spec.parallelism",
        "Interleaved1F1B only", "cel"),
    # Checkpoints.
    Bad("checkpoints without a volume", spec(checkpoint={"every": 5}), "spec.checkpoint.volume", "required", "schema"),
    Bad("no claim", volume(), "spec.checkpoint.volume", "claimName and claimTemplate", "cel"),
    Bad("two claims", volume(claimName="a", claimTemplate={"storage": 1}), "spec.checkpoint.volume", "one of", "cel"),
    Bad("a claim's name in capitals", volume(claimName="Checkpoints"), "spec.checkpoint.volume.claimName",
        "lower-case", "schema"),
    Bad("a folder outside the volume", volume(claimName="a", subPath="../b"), "spec.checkpoint.volume.subPath", "..",
        "cel"),
    Bad("an absolute folder", volume(claimName="a", subPath="/b"), "spec.checkpoint.volume.subPath", "leading /",
        "cel"),
    Bad("copies of some kind", spec(checkpoint=CLAIM | {"replicate": "auto"}), "spec.checkpoint.replicate", "Always",
        "schema"),
    Bad("snapshots in negative time", spec(checkpoint=CLAIM | {"memoryEvery": -1}), "spec.checkpoint.memoryEvery",
        "at least 0", "schema"),
    Bad("checkpoints kept of no round", spec(checkpoint=CLAIM | {"keepEvery": 0}), "spec.checkpoint.keepEvery",
        "at least 1", "schema"),
    Bad("parameters of nowhere", restore_from(optimizer=True), "spec.checkpoint.restoreFrom.path", "required",
        "schema"),
    Bad("parameters outside the volume", restore_from(path="a/../../b"), "spec.checkpoint.restoreFrom.path", "..",
        "cel"),
    Bad("parameters both mounted and claimed", restore_from(path="/b", claimName="team"),
        "spec.checkpoint.restoreFrom.path", "claimName", "cel"),
    Bad("several replicas, a volume of one node", claim(2, accessModes=["ReadWriteOnce"]),
        "spec.checkpoint.volume.claimTemplate.accessModes", "ReadWriteMany", "cel"),
    Bad("an access mode that cannot write", claim(accessModes=["ReadOnlyMany"]),
        "spec.checkpoint.volume.claimTemplate.accessModes[0]", "ReadWriteMany", "schema"),
    Bad("modes that exclude each other", claim(accessModes=["ReadWriteOncePod", "ReadWriteMany"]),
        "spec.checkpoint.volume.claimTemplate.accessModes", "ReadWriteOncePod", "cel"),
    Bad("a volume without room", claim(storage="0Gi"), "spec.checkpoint.volume.claimTemplate.storage", "more than 0",
        "cel"),
    Bad("never a checkpoint", spec(checkpoint=VOLUME | {"every": 0}), "spec.checkpoint.every", "at least 1", "schema"),
    # Failures.
    Bad("negative restarts", spec(faultTolerance={"maxRestarts": -1}), "spec.faultTolerance.maxRestarts", "at least 0",
        "schema"),
    Bad("a time-out of nothing", spec(faultTolerance={"timeouts": {"training": 0}}),
        "spec.faultTolerance.timeouts.training", "more than 0", "schema"),
    Bad("a time-out as text", spec(faultTolerance={"timeouts": {"starting": "5m"}}),
        "spec.faultTolerance.timeouts.starting", "number", "schema"),
    Bad("a rule about everything", spec(faultTolerance={"rules": [{"action": "Ignore"}]}),
        "spec.faultTolerance.rules[0]", "at least one of exitCodes", "cel"),
    Bad("a rule about nothing", spec(faultTolerance={"rules": [{"action": "Ignore", "exitCodes": []}]}),
        "spec.faultTolerance.rules[0]", "at least one of exitCodes", "cel"),
    Bad("elastic without checkpoints", spec(replicas=4, elastic={"minReplicas": 2}),
        "spec.elastic", "needs spec.checkpoint", "cel"),
    Bad("elastic and exact",
        spec(replicas=4, checkpoint=VOLUME, elastic={"minReplicas": 2}, faultTolerance={"recovery": "Exact"}),
        "spec.elastic", "other bits", "cel"),
    Bad("elastic and MPI",
        spec(replicas=4, checkpoint=VOLUME, elastic={"minReplicas": 2}, communication={"inter": "mpi"}),
        "spec.elastic", "not offered with MPI", "cel"),
    Bad("more than all replicas", spec(replicas=4, checkpoint=VOLUME, elastic={"minReplicas": 5}),
        "spec.elastic.minReplicas", "more than replicas 4", "cel"),
    Bad("a smallest size that the pipelines do not fit",
        spec(replicas=4, checkpoint=VOLUME, elastic={"minReplicas": 3}, parallelism={"pipeline": 2}),
        "spec.elastic.minReplicas", "does not fit", "operator"),
    Bad("all machines are too slow", spec(faultTolerance={"preflight": {"slowerThan": 1}}),
        "spec.faultTolerance.preflight.slowerThan", "must be more than 1", "schema"),
    Bad("more failures than are kept", spec(faultTolerance={"nodeExclusion": {"afterFailures": 11}}),
        "spec.faultTolerance.nodeExclusion.afterFailures", "at most 10", "schema"),
    Bad("a rule about success", spec(faultTolerance={"rules": [{"action": "FailJob", "exitCodes": [0]}]}),
        "spec.faultTolerance.rules[0].exitCodes[0]", "at least 1", "schema"),
    Bad("an unknown action", spec(faultTolerance={"rules": [{"action": "Retry", "exitCodes": [1]}]}),
        "spec.faultTolerance.rules[0].action", "Restart, RestartUncounted, Ignore or FailJob", "schema"),
    Bad("a window of nothing", spec(faultTolerance={"restartWindowSeconds": 0}),
        "spec.faultTolerance.restartWindowSeconds", "at least 1", "schema"),
    Bad("a gang of nobody", spec(scheduling={"gang": "Pods"}), "spec.scheduling.gang", "Operator", "schema"),
    Bad("a queue of nobody", spec(scheduling={"gang": "Operator", "queueName": "a"}),
        "spec.scheduling.queueName", "of gang Kueue and Volcano only", "cel"),
    Bad("no queue of Kueue", spec(scheduling={"gang": "Kueue"}),
        "spec.scheduling.queueName", "is required with gang Kueue", "operator"),
    Bad("no name of a queue", spec(scheduling={"gang": "Volcano", "queueName": "Team"}),
        "spec.scheduling.queueName", "lower-case letters", "schema"),
    Bad("a group of another size",
        spec(replicas=4, checkpoint=VOLUME, elastic={"minReplicas": 2}, scheduling={"gang": "Volcano"}),
        "spec.scheduling.gang", "remove spec.elastic", "cel"),
    Bad("spares beside a group", spec(scheduling={"gang": "Coscheduling"}, spareReplicas=1),
        "spec.scheduling.gang", "set spec.spareReplicas to 0", "cel"),
    Bad("replacements of another shape",
        spec(scheduling={"gang": "Kueue", "queueName": "a"}, faultTolerance={"nodeExclusion": {}}),
        "spec.scheduling.gang", "remove spec.faultTolerance.nodeExclusion", "cel"),
    Bad("replacements elsewhere",
        spec(scheduling={"gang": "Kueue", "queueName": "a"}, faultTolerance={"preflight": {}}),
        "spec.scheduling.gang", "remove spec.faultTolerance.preflight", "cel"),
    Bad("a scheduler in Volcano's place", template(schedulerName="fair") | {"scheduling": {"gang": "Volcano"}},
        "spec.template.spec.schedulerName", "gang is Volcano", "operator"),
    Bad("a queue in the template", spec(template={"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "a"}}}),
        "spec.template.metadata.labels[kueue.x-k8s.io/queue-name]", "see spec.scheduling.gang", "operator"),
    Bad("a topology of no key", spec(scheduling={"topologyPolicy": "Required"}),
        "spec.scheduling", "topologyPolicy Required needs topologyKey", "operator"),
    Bad("no label", spec(scheduling={"topologyKey": "a rack"}), "spec.scheduling.topologyKey", "label's key",
        "schema"),
    Bad("a scheduler twice", template(schedulerName="fair") | {"scheduling": {"schedulerName": "fair"}},
        "spec.scheduling.schedulerName", "spec.template.spec.schedulerName is set, too", "operator"),
    Bad("a priority twice", template(priorityClassName="high") | {"scheduling": {"priorityClassName": "low"}},
        "spec.scheduling.priorityClassName", "spec.template.spec.priorityClassName is set, too", "operator"),
    # Life.
    Bad("suspended in words", spec(suspend="yes"), "spec.suspend", "true or false", "schema"),
    Bad("no time at all", spec(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds", "at least 1", "schema"),
    Bad("no time to begin", spec(pendingDeadlineSeconds=0), "spec.pendingDeadlineSeconds", "at least 1", "schema"),
    Bad("deleted before its end", spec(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished", "at least 0",
        "schema"),
    Bad("an unknown policy for pods", spec(cleanPodPolicy="Failed"), "spec.cleanPodPolicy", "Running, All or None",
        "schema"),
    Bad("a manager without a domain", spec(managedBy="me"), "spec.managedBy", "a domain and a path", "schema"),
    Bad("an unknown fate of the claim", claim(whenDeleted="Keep"),
        "spec.checkpoint.volume.claimTemplate.whenDeleted", "Retain or Delete", "schema"),
    # Template.
    Bad("a label as a number", spec(template={"metadata": {"labels": {"version": 1}}}),
        "spec.template.metadata.labels.version", "string", "schema"),
    Bad("a label's value with a space", spec(template={"metadata": {"labels": {"team": "a b"}}}),
        "spec.template.metadata.labels.team", "letters, digits", "schema"),
    Bad("a reserved label", spec(template={"metadata": {"labels": {"ringtrain.io/job": "x"}}}),
        "spec.template.metadata.labels[ringtrain.io/job]", "reserved", "cel"),
    Bad("a reserved annotation", spec(template={"metadata": {"annotations": {"ringtrain.io/x": "y"}}}),
        "spec.template.metadata.annotations[ringtrain.io/x]", "reserved", "cel"),
    Bad("a label that is no key", spec(template={"metadata": {"labels": {"a b": "c"}}}),
        "spec.template.metadata.labels[a b]", "valid key", "operator"),
    Bad("a misspelt field of the pod", template(nodeselector={}), "spec.template.spec.nodeselector",
        "did you mean nodeSelector?", "operator"),
    Bad("a wrong type in the pod", template(tolerations={"operator": "Exists"}), "spec.template.spec.tolerations",
        "list", "operator"),
    Bad("a deep wrong type in the pod", container(env=[{"name": "A", "value": 1}]),
        "spec.template.spec.containers[0].env[0].value", "must be a string, not 1", "operator"),
    Bad("a volume without a name", template(volumes=[{"emptyDir": {}}]), "spec.template.spec.volumes[0].name",
        "required", "operator"),
    Bad("a pull secret without a name", template(imagePullSecrets=[{}]), "spec.template.spec.imagePullSecrets[0].name",
        "required", "operator"),
    Bad("an empty entry in the pod", template(containers=[None]), "spec.template.spec.containers[0]", "null",
        "operator"),
    Bad("the job's volumes taken back", template(volumes=None), "spec.template.spec.volumes", "must not be null",
        "operator"),
    Bad("the job's variables taken back", container(env=None), "spec.template.spec.containers[0].env",
        "must not be null", "operator"),
    Bad("a reserved volume", template(volumes=[{"name": "shm", "emptyDir": {}}]), "spec.template.spec.volumes[0].name",
        "reserved", "operator"),
    Bad("two volumes of one name", template(volumes=[{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
        "spec.template.spec.volumes[1].name", "twice", "operator"),
    Bad("a mount of no volume", container(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        "spec.template.spec.containers[0].volumeMounts[0].name", "no volume data", "operator"),
    Bad("a mount that hides another", container(volumeMounts=[{"name": "tmp", "mountPath": "/dev/"}]),
        "spec.template.spec.containers[0].volumeMounts[0].mountPath", "hide /dev/", "operator"),
    Bad("a reserved variable", container(env=[{"name": "RINGTRAIN_RANK", "value": "0"}]),
        "spec.template.spec.containers[0].env[0].name", "reserved", "operator"),
    Bad("the image in the template", container(image="other:1"), "spec.template.spec.containers[0].image",
        "set spec.image", "operator"),
    Bad("an own liveness probe", container(livenessProbe={"exec": {"command": ["true"]}}),
        "spec.template.spec.containers[0].livenessProbe", "heartbeat", "operator"),
    Bad("a helper without an image", template(containers=[{"name": "logs"}]), "spec.template.spec.containers[0].image",
        "required", "operator"),
    Bad("an init container named trainer", template(initContainers=[{"name": "trainer", "image": "x"}]),
        "spec.template.spec.initContainers[0].name", "reserved", "operator"),
    Bad("the host's network", template(hostNetwork=True), "spec.template.spec.hostNetwork", "remove it", "operator"),
    Bad("an own host name", template(hostname="me"), "spec.template.spec.hostname", "remove it", "operator"),
    Bad("an own restart policy", template(restartPolicy="Always"), "spec.template.spec.restartPolicy", "remove it",
        "operator"),
    Bad("a bad quantity in the pod", template(volumes=[{"name": "a", "emptyDir": {"sizeLimit": "big"}}]),
        "spec.template.spec.volumes[0].emptyDir.sizeLimit", "quantity", "operator"),
)  # fmt: skip
