"""Everything about checkpoints that one generation of a job needs."""

from pathlib import Path

from ringtrain.checkpoint.assembly import Wanted
from ringtrain.checkpoint.directory import why_unusable
from ringtrain.checkpoint.reader import Reader, Restored
from ringtrain.checkpoint.saver import Saver
from ringtrain.checkpoint.tiers import Tiers
from ringtrain.comm.group import Group
from ringtrain.contract.environment import CheckpointSettings, WarmStart
from ringtrain.contract.generation import Generation
from ringtrain.runtime.errors import BadConfiguration
from ringtrain.runtime.session import Session


class Checkpoints:
    """Of all ranks of a generation, which make the same calls together. They raise PeerLost and what polling raises."""

    def __init__(
        self, settings: CheckpointSettings, tiers: Tiers, session: Session, generation: Generation, group: Group
    ) -> None:
        self._settings = settings
        self._tiers = tiers
        self._session = session
        self._generation = generation
        self._group = group

    @property
    def warm_start(self) -> WarmStart | None:
        return self._settings.warm_start

    def newest(self, wanted: Wanted) -> Restored | None:
        """The job's own newest checkpoint, in memory or on the volume; see `Reader.load`.

        Raises BadConfiguration when all are damaged, and when there is none and none could ever be kept.
        """
        root = Path(self._settings.directory)
        unusable = why_unusable(root)
        reader = Reader(root, self._session, self._group, exact=self._settings.recovery == "Exact")
        try:
            restored = reader.load(self._tiers, wanted)
        except OSError as error:
            if unusable:
                raise BadConfiguration(unusable) from error
            raise
        # A volume that has turned read-only costs checkpoints, not what was trained.
        if restored is None and unusable:
            raise BadConfiguration(unusable)
        return restored

    def load_warm_start(self, wanted: Wanted) -> Restored:
        """The newest checkpoint of the job that this one begins with. Raises BadConfiguration when there is none."""
        assert self.warm_start is not None
        root = Path(self.warm_start.directory)
        restored = Reader(root, self._session, self._group).load(None, wanted)
        if restored is None:
            raise BadConfiguration(
                f"there is no checkpoint in {root}: correct spec.checkpoint.restoreFrom, or remove it"
            )
        return restored

    def saver(self, restored: Restored | None) -> Saver:
        """To be closed before the generation is left. `restored` is what training went back to."""
        saver = Saver(self._settings, self._tiers, self._session, self._generation, self._group)
        if restored is not None and restored.on_volume:
            saver.saved_round = restored.round
        return saver
