"""Names, labels and annotations of a job's children."""

LABEL_JOB = "ringtrain.io/job"
LABEL_REPLICA = "ringtrain.io/replica"
LABEL_EPOCH = "ringtrain.io/epoch"
LABEL_HOLDING = "ringtrain.io/holding"
"""Of pods that stand for no replica and only hold a place."""
ANNOTATION_SPEC = "ringtrain.io/spec-generation"
"""metadata.generation of the job whose spec a pod was made from."""


def pod_name(job: str, index: int, epoch: int) -> str:
    return f"{job}-{index}-{epoch}"


def host_name(job: str, index: int) -> str:
    return f"{job}-{index}"


def claim_name(job: str) -> str:
    """Of the claim that a job makes and owns."""
    return f"{job}-checkpoints"
