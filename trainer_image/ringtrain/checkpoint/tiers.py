"""What a rank's process saves with, from its first generation to its last."""

from dataclasses import dataclass, field

from ringtrain.checkpoint.living import Living
from ringtrain.checkpoint.memory import Memory
from ringtrain.checkpoint.names import CheckpointName
from ringtrain.checkpoint.worker import Worker


@dataclass(slots=True)
class Tiers:
    memory: Memory
    living: Living | None = None
    """What the newest snapshot was taken of."""
    copies: Worker = field(default_factory=lambda: Worker("ringtrain-snapshots"))
    """Copies state into memory."""
    worker: Worker = field(default_factory=lambda: Worker("ringtrain-checkpoints"))
    """Writes to the volume."""

    @property
    def hold_state(self) -> bool:
        """Whether anything lies in memory that a generation could go on from."""
        return bool(self.memory.held()) or self.living is not None

    def leave(self) -> None:
        """The generation is over: nothing changes the state any more, and the next one needs its room."""
        living = self.living.on_host() if self.living is not None and self.living.intact else None
        self.living = living if living is not None and self._is_of_its_snapshot(living) else None

    def forget_newer(self, than: CheckpointName | None) -> None:
        """See `Memory.forget_newer`."""
        self.memory.forget_newer(than)
        if self.living is not None and (than is None or self.living.name > than):
            self.living = None

    def _is_of_its_snapshot(self, living: Living) -> bool:
        return all(living.is_in(slot) for manifest, slot in self.memory.held() if manifest == living.snapshot)
