"""What a rank's process saves with, from its first generation to its last."""

from dataclasses import dataclass, field

from ringtrain.checkpoint.memory import Memory
from ringtrain.checkpoint.worker import Worker


@dataclass(frozen=True, slots=True)
class Tiers:
    memory: Memory
    worker: Worker = field(default_factory=lambda: Worker("ringtrain-checkpoints"))
    """Writes to the volume."""
