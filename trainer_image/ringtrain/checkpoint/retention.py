"""Which checkpoints are kept."""

from collections.abc import Collection

from ringtrain.checkpoint.names import CheckpointName


def superfluous(
    committed: Collection[CheckpointName], valid: Collection[CheckpointName], keep: int, keep_every: int | None
) -> list[CheckpointName]:
    """Those that are to be deleted, newest first: all but the `keep` newest valid ones, what is newer than the oldest
    of them, and those whose round is a multiple of `keep_every`. None as long as fewer than `keep` are valid.

    Of multiples even damaged ones stay: what a volume does not give now may be read later. Raises ValueError when a
    number is below 1.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}: at least the newest checkpoint must stay")
    if keep_every is not None and keep_every < 1:
        raise ValueError(f"keep_every is {keep_every}: expected a number of rounds, at least 1")
    newest = sorted(valid, reverse=True)[:keep]
    if len(newest) < keep:
        return []
    return [
        name
        for name in sorted(committed, reverse=True)
        if name < newest[-1] and (keep_every is None or name.round % keep_every)
    ]
