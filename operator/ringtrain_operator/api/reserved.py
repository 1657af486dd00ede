"""Names that pods of a job use themselves, so that a user's template must leave them alone."""

from types import MappingProxyType

CONTAINER = "trainer"
"""The training container; an entry of the template's `containers` of this name is merged into it."""

SHM_VOLUME = "shm"
CHECKPOINT_VOLUME = "checkpoints"
TMP_VOLUME = "tmp"
RESTORE_VOLUME = "restore-from"
VOLUMES = frozenset({SHM_VOLUME, CHECKPOINT_VOLUME, TMP_VOLUME, RESTORE_VOLUME})

SHM_PATH = "/dev/shm"
CHECKPOINT_PATH = "/checkpoints"
RESTORE_PATH = "/restore-from"
TMP_PATH = "/tmp"
TERMINATION_LOG = "/dev/termination-log"
MOUNT_PATHS = frozenset({SHM_PATH, CHECKPOINT_PATH, RESTORE_PATH, TMP_PATH, TERMINATION_LOG})

LABEL_PREFIX = "ringtrain.io/"
"""Of labels and annotations."""

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_COUNT = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
KUEUE_MANAGED = "kueue.x-k8s.io/managed"
"""Kueue marks pods so."""
VOLCANO_GROUP = "scheduling.k8s.io/group-name"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
GROUP_KEYS = frozenset({KUEUE_QUEUE, KUEUE_GROUP, KUEUE_COUNT, KUEUE_RETRIABLE, VOLCANO_GROUP, COSCHEDULING_GROUP})
"""Labels and annotations by which schedulers know pods of a group; spec.scheduling sets them."""

POD_FIELDS = MappingProxyType(
    {
        "hostNetwork": "replicas of one node would fight for the agents' port",
        "hostname": "replicas find each other by host names of the job's own",
        "hostnameOverride": "replicas find each other by host names of the job's own",
        "setHostnameAsFQDN": "replicas find each other by host names of the job's own",
        "subdomain": "replicas find each other under the job's own Service",
        "restartPolicy": "the operator replaces pods itself, within faultTolerance.maxRestarts",
        "ephemeralContainers": "Kubernetes takes them for running pods only",
    }
)
"""Fields of a PodSpec that the template may not set, and why."""

CONTAINER_FIELDS = MappingProxyType(
    {
        "image": "set spec.image",
        "imagePullPolicy": "set spec.imagePullPolicy",
        "command": "set spec.command",
        "args": "set spec.args",
        "resources": "set spec.resources",
        "livenessProbe": "the agent's heartbeat is the pod's liveness; set spec.faultTolerance.timeouts",
        "readinessProbe": "the agent says itself when it is ready",
        "startupProbe": "set spec.faultTolerance.timeouts.starting",
        "terminationMessagePath": "the agent reports there why it ended",
        "terminationMessagePolicy": "the agent reports there why it ended",
        "restartPolicy": "the operator replaces pods itself, within faultTolerance.maxRestarts",
        "restartPolicyRules": "the operator replaces pods itself, within faultTolerance.maxRestarts",
    }
)
"""Fields of the training container that the template may not set, and what to do."""

NEEDED = frozenset({"containers", "volumes", "terminationGracePeriodSeconds", "env", "ports", "volumeMounts"})
"""Fields of the pod and of its training container that the template may add to, but not take back with a null."""
