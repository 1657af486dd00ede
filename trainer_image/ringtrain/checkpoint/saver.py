"""When a rank saves what: snapshots in memory, checkpoints on the volume, and the last words before a stop."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ringtrain.checkpoint.copier import Copier, copies_are_needed
from ringtrain.checkpoint.living import Living
from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.memory import Slot, free_slots, make_room
from ringtrain.checkpoint.part import Part
from ringtrain.checkpoint.shard import Image
from ringtrain.checkpoint.staging import Staging
from ringtrain.checkpoint.state import Replicated, State, local_image
from ringtrain.checkpoint.tiers import Tiers
from ringtrain.checkpoint.volume_save import VolumeSave
from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.group import Group
from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import CheckpointTotals
from ringtrain.runtime.output import say
from ringtrain.runtime.session import Session

Clock = Callable[[], float]


@dataclass(slots=True)
class _Running:
    save: VolumeSave
    started: float
    """By the clock."""
    warned: bool = False


class Saver:
    """Saves checkpoints of one generation: training stands still only while its state is copied into memory."""

    def __init__(
        self,
        settings: CheckpointSettings,
        tiers: Tiers,
        session: Session,
        generation: Generation,
        group: Group,
        clock: Clock = time.monotonic,
    ) -> None:
        """All ranks of the group together. Raises PeerLost, or what polling raises."""
        self._settings = settings
        self._tiers = tiers
        self._session = session
        self._generation = generation
        self._group = group
        self._clock = clock
        self._totals = CheckpointTotals()
        self._running: _Running | None = None
        self._late: VolumeSave | None = None
        """The latest that took too long; whether it was committed after all is still to be told."""
        self._pinned: Slot | None = None
        """Not to be written before all ranks have written it to the volume: who has not could not write it either, and
        a snapshot counts only if all ranks hold that of the same round."""
        self.saved_round: int | None = None
        """The newest that is on the volume, or was to be."""
        session.saves_before_stop = settings.save_on_preemption
        self._staging = Staging(tiers.copies, group.device)
        self._copier: Copier | None = None
        self._uncopied = False
        """This rank had no memory for another's snapshot."""
        self._newest: int | None = None
        """The round whose snapshot was taken last."""
        processes = session.environment.procs_per_replica
        if settings.memory_every and copies_are_needed(settings.replicate, group.mesh, processes):
            self._copier = Copier(tiers.memory, group, processes)

    @property
    def totals(self) -> CheckpointTotals:
        self._settle()
        return self._totals

    def votes(self) -> Votes:
        """This rank's, for `end_round`."""
        self._settle()
        return Votes(
            stopping=self._session.saves_before_stop and self._session.asked_to_stop,
            writing=self._running is not None or self._tiers.worker.busy,
            full=not free_slots(self._tiers.memory.snapshots),
            copying=self._copier is not None and (self._copier.busy or self._staging.busy),
            uncopied=self._uncopied,
        )

    def end_round(self, round: int, votes: Votes, state: Callable[[], State]) -> None:
        """Saves what is due after `round`. `votes` are those of all ranks, `state` gives the living tensors.

        Before a stop, it waits for the commit. Raises Interrupted, or Preempted once all is saved.
        """
        if votes.stopping:
            self.finish(round, state)
            self._session.stop_if_asked()
            return
        if votes.uncopied:
            self._stop_copying()
        if not votes.writing:
            self._pin(None)
        to_volume = round % self._settings.every == 0
        if to_volume and votes.writing:
            self._skip(round)
            to_volume = False
        if to_volume or self._to_memory(round, votes):
            self._session.beat(Phase.CHECKPOINTING)
            self._save(round, state, to_volume=to_volume, copy=not votes.delays_copies)

    @contextmanager
    def keeping(self, round: int, votes: Votes, state: Callable[[], State]) -> Iterator[None]:
        """For all that follows the step of `round`, with its `end_round`: if anything breaks it off before, the
        snapshot is taken then, so that a round which all have finished is not trained again."""
        try:
            yield
        except Exception:
            if self._newest != round and self._to_memory(round, votes):
                self._save(round, state, to_volume=False, copy=False)
            raise

    def before_step(self) -> None:
        """Call it before anything changes what the last state called settled. Raises Interrupted, or Preempted."""
        if self._staging.busy:
            started = self._clock()
            self._staging.wait(lambda: self._session.beat(Phase.CHECKPOINTING))
            self._count(snapshot_seconds=self._clock() - started)

    def finish(self, round: int, state: Callable[[], State]) -> None:
        """All ranks call it after the same round: when it returns, that round is saved on the volume, or was given up
        for a reason that was told. By the checkpointing time-out it waits twice at most. Raises Interrupted, or
        Preempted when there is no more time."""
        self._wait_until(lambda: self._running is None and bool(free_slots(self._tiers.memory.snapshots)))
        self._pin(None)
        if self.saved_round != round:
            self._save(round, state, to_volume=True, copy=False)
            self._wait_until(lambda: self._running is None)

    def close(self) -> None:
        """The generation is over, or the job done. Never waits for the volume or for a peer."""
        self._session.saves_before_stop = False
        self._staging.finish()
        self._tiers.leave()
        self._pin(None)
        if self._running is not None:
            self._running.save.give_up()
            self._running = None
        self._stop_copying()

    def _stop_copying(self) -> None:
        """Ends copies that wait for a rank which takes none: they would keep all others from taking snapshots."""
        if self._copier is not None:
            self._staging.finish()
            self._copier.close()
            self._copier = None

    def _to_memory(self, round: int, votes: Votes) -> bool:
        every = self._settings.memory_every
        # Not without its copy: that of some earlier round would be no checkpoint without the snapshots of that round.
        return every > 0 and round % every == 0 and not votes.full and not votes.delays_copies

    def _save(self, round: int, state: Callable[[], State], *, to_volume: bool, copy: bool) -> None:
        self.before_step()
        if to_volume:
            self.saved_round = round
        started = self._clock()
        rank = self._group.rank
        own = state()
        replicated = Replicated.of(own, self._group.mesh.twins(rank))
        found = [*replicated.images(rank), local_image(own, rank)]
        try:
            slot, rooms = make_room(self._tiers.memory.snapshots, [image.size for image in found])
        except MemoryError as error:
            self._without_snapshot(round, str(error), to_volume=to_volume, copy=copy)
            return
        self._newest = round
        manifest = self._manifest(round, found)
        self._tiers.living = Living(manifest, replicated, own.lossless) if own.dispensable else None
        save = self._begin_write(manifest, replicated.part, slot) if to_volume else None
        self._staging.start(
            slot, list(zip(found, rooms, strict=True)), manifest, partial(self._staged, slot, save, copy)
        )
        self._count(snapshots=1, snapshot_seconds=self._clock() - started)

    def _without_snapshot(self, round: int, problem: str, *, to_volume: bool, copy: bool) -> None:
        if to_volume:
            self._session.save_failed(self._generation, round, problem)
        if copy and self._copier is not None:
            self._copier.copy(None)

    def _staged(self, slot: Slot, save: VolumeSave | None, copy: bool, problem: str) -> None:
        """Maybe on another thread."""
        if save is not None:
            if problem:
                self._session.save_failed(self._generation, save.round, problem)
                save.give_up()
            self._tiers.worker.submit(save.run)
        if copy and self._copier is not None:
            self._copier.copy(None if problem else slot)

    def _manifest(self, round: int, images: Sequence[Image]) -> Manifest:
        return Manifest(
            job=self._session.environment.job,
            generation=str(self._generation),
            round=round,
            mesh=self._group.mesh,
            created=datetime.now(UTC),
            files=tuple(
                ManifestFile(rank=self._group.rank, path=image.name, size=image.size, sha256="") for image in images
            ),
        )

    def _begin_write(self, manifest: Manifest, part: Part, slot: Slot) -> VolumeSave:
        save = VolumeSave(Path(self._settings.directory), self._session, manifest, part, slot)
        self._running = _Running(save, self._clock())
        self._pin(slot)
        return save

    def _pin(self, slot: Slot | None) -> None:
        """In place of the one before."""
        if slot is not None:
            slot.acquire()
        if self._pinned is not None:
            self._pinned.release()
        self._pinned = slot

    def _settle(self) -> None:
        """Takes note of what has ended."""
        if self._copier is not None and self._copier.failure:
            message, self._copier.failure = self._copier.failure, ""
            self._uncopied = True
            self._session.report("SnapshotCopyFailed", f"snapshots are not copied any more: {message}")
        self._settle_late()
        running = self._running
        if running is None:
            return
        save, seconds = running.save, self._clock() - running.started
        limit = self._session.environment.timeouts.checkpointing
        problem = self._session.committed(save.generation, save.round)
        if problem is None:
            if seconds < limit:
                return
            problem = f"it was not committed within {limit:g} s"
            save.give_up()
            self._session.save_failed(save.generation, save.round, problem)
            self._late = save
        elif problem:
            self._tiers.worker.submit(save.clean)
        self._running = None
        if problem:
            self._count(failed=1)
            say(self._group.rank, f"no checkpoint of round {save.round}: {problem}")
        else:
            self._count(committed=1, write_seconds=seconds, written_bytes=save.bytes)

    def _settle_late(self) -> None:
        """Only the coordinator knows whether a commit has begun: until it tells, the files may be needed."""
        if self._late is None:
            return
        problem = self._session.committed(self._late.generation, self._late.round)
        if problem:
            self._tiers.worker.submit(self._late.clean)
        if problem is not None:
            self._late = None

    def _skip(self, round: int) -> None:
        self._count(skipped=1)
        running = self._running
        if running is not None and not running.warned:
            running.warned = True
            seconds = self._clock() - running.started
            self._session.report(
                "CheckpointSlow",
                f"after {seconds:.0f} s the checkpoint of round {running.save.round} is still being written, so that "
                f"of round {round} is skipped: the volume is too slow for spec.checkpoint.every {self._settings.every}",
            )

    def _wait_until(self, done: Callable[[], bool]) -> None:
        """By the checkpointing time-out at most. Raises Interrupted, or Preempted when there is no more time."""
        deadline = self._clock() + self._session.environment.timeouts.checkpointing
        while self._clock() < deadline:
            self._session.beat(Phase.CHECKPOINTING)
            self._settle()
            if done():
                return
            self._session.pause()

    def _count(self, **more: float) -> None:
        self._totals = self._totals.model_copy(
            update={name: getattr(self._totals, name) + value for name, value in more.items()}
        )
