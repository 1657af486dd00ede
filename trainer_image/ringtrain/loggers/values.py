"""What loggers are told of a round: pure."""

from ringtrain.contract.report import Progress


def values_of(progress: Progress) -> dict[str, float]:
    """What is known of a finished round, by names that group curves in TensorBoard and W&B. Of the whole job, but for
    compression, which is rank 0's."""
    communication = progress.communication
    known = {
        "loss/train": progress.loss,
        "loss/evaluation": progress.evaluation_loss,
        "gradient/norm": progress.gradient_norm,
        "speed/tokens_per_second": progress.tokens_per_second,
        "speed/model_flops_per_second": progress.flops_per_second,
        "communication/exposed_share": progress.communication_share,
        "communication/compression_ratio": communication.ratio if communication is not None else None,
        "communication/compression_error": communication.inter.error if communication is not None else None,
    }
    return {name: float(value) for name, value in known.items() if value is not None}
