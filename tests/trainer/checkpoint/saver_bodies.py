"""What ranks do in the tests of saving."""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import load_file

from ringtrain.checkpoint import memory as memory_module
from ringtrain.checkpoint.memory import Memory, name_of
from ringtrain.checkpoint.saver import Saver
from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.tiers import Tiers
from ringtrain.checkpoint.volume import commit, prune
from ringtrain.checkpoint.votes import Votes
from ringtrain.contract import memory
from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import Committed, Leave, SaveFailed, ShardsWritten, Stop
from ringtrain.runtime.errors import Interrupted, Preempted
from ringtrain.runtime.session import Session
from trainer.checkpoint.checkpoints import state
from trainer.checkpoint.sessions import AgentEnd, open_session
from trainer.comm.ranks import Link

GENERATION = Generation(1, 1)
PATIENCE = 60.0


def new_tiers() -> Tiers:
    return Tiers(Memory([os.memfd_create("test") for _ in range(memory.TOTAL)]))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Scene:
    """One rank's saver, and the agent's end of its session."""

    saver: Saver
    tiers: Tiers
    session: Session
    agent: AgentEnd
    rank: int
    clock: Clock
    heard: list[Any]

    def end_round(self, round: int, votes: Votes | None = None) -> None:
        self.saver.end_round(round, votes or self.saver.votes(), self.state(round))

    def state(self, round: int) -> Callable[[], State]:
        return lambda: state(self.rank, round)

    def hear(self, kind: type) -> Any:
        """The next such message; others are kept."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.heard += self.agent.received()
            for message in self.heard:
                if isinstance(message, kind):
                    self.heard.remove(message)
                    return message
            time.sleep(0.01)
        raise AssertionError(f"waited in vain for {kind}, heard {self.heard}")

    def answer(self, round: int, error: str = "") -> None:
        self.agent.send(Committed(generation=str(GENERATION), round=round, error=error))

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline
            self.session.poll()
            time.sleep(0.01)

    @property
    def rounds(self) -> list[int]:
        """Of the snapshots in memory."""
        return sorted(name_of(manifest).round for manifest, _ in self.tiers.memory.held())


@contextmanager
def scene(link: Link, root: Path, tiers: Tiers | None = None, **fields: Any) -> Iterator[Scene]:
    group = link.form(0, 1)
    clock, tiers = Clock(), tiers or new_tiers()
    settings = CheckpointSettings(directory=str(root), **fields)
    with open_session(0, 1, str(GENERATION)) as (session, agent):
        saver = Saver(settings, tiers, session, GENERATION, group, clock)
        yield Scene(saver, tiers, session, agent, 0, clock, [])
        saver.close()
    group.destroy()


def save_while_training(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """The files that were reported, whether the slot was let go, and what was counted."""
    with scene(link, root) as one:
        one.end_round(5)
        written = one.hear(ShardsWritten)
        one.clock.now = 2
        one.answer(5)
        one.until(lambda: not one.saver.votes().writing)
        totals = one.saver.totals
        return written.model_dump(), one.saver.votes().full, totals.model_dump()


def skip_what_is_due_too_early(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """(rounds in memory, counted, warnings) after a second save was due before the first was committed."""
    with scene(link, root) as one:
        one.end_round(5)
        one.hear(ShardsWritten)
        one.clock.now = 30
        one.end_round(10)
        one.end_round(15)
        one.answer(5)
        one.until(lambda: not one.saver.votes().writing)
        one.end_round(20)
        assert one.hear(ShardsWritten).round == 20
        warnings = [message.message for message in [*one.heard, *one.agent.received()]]
        return one.rounds, one.saver.totals.model_dump(), warnings


def skip_when_another_rank_writes(link: Link, _rank: int, _size: int, root: Path) -> Any:
    with scene(link, root) as one:
        one.end_round(5, Votes(writing=True))
        one.end_round(6, Votes(full=True))
        return one.rounds, one.saver.totals.model_dump(), sorted(path.name for path in root.iterdir())


def remember_only_what_is_due(link: Link, _rank: int, _size: int, root: Path, every: int) -> Any:
    with scene(link, root, every=100, memory_every=every) as one:
        rounds = []
        for round in range(1, 8):
            one.end_round(round)
            rounds.append(one.rounds)
        return rounds


def fail(link: Link, _rank: int, _size: int, root: Path, error: str) -> Any:
    """A volume that refuses, or another rank that does; what is left, and what was told."""
    with scene(link, root) as one:
        one.end_round(5)
        told = one.hear(SaveFailed if not error else ShardsWritten)
        one.answer(5, error or "rank 0: full")
        one.until(lambda: not one.saver.votes().writing)
        left = sorted(path.name for path in root.rglob("*")) if root.is_dir() else []
        return told.model_dump(), left, one.saver.totals.model_dump(), one.rounds


def never_answered(link: Link, _rank: int, _size: int, root: Path) -> Any:
    with scene(link, root) as one:
        one.end_round(5)
        one.hear(ShardsWritten)
        one.clock.now = 1e6
        failed = one.hear(SaveFailed) if one.saver.totals.failed else None
        return failed.reason if failed else "", one.saver.votes().writing


def committed_late(link: Link, _rank: int, _size: int, root: Path, error: str) -> Any:
    """The files of a save that took too long: before the coordinator tells of it, and after."""

    def files() -> list[str]:
        return sorted(path.name for path in root.rglob("*.safetensors"))

    with scene(link, root) as one:
        one.end_round(5)
        one.hear(ShardsWritten)
        one.clock.now = 1e6
        one.until(lambda: not one.saver.votes().writing)
        before = files()
        one.answer(5, error)
        one.session.poll()
        if error:
            one.until(lambda: not (one.saver.votes().writing or files()))
        else:
            one.until(lambda: not one.saver.votes().writing)
        return len(before), len(files())


def remember_while_writing(link: Link, _rank: int, _size: int, root: Path, writes: bool) -> Any:
    """Rounds in memory while this rank still writes round 5, or others do."""
    tiers = new_tiers()
    released = threading.Event()

    def hold() -> None:
        assert released.wait(PATIENCE)

    with scene(link, root, tiers) as one:
        if writes:
            tiers.worker.submit(hold)
        one.end_round(5, Votes())
        if not writes:
            one.hear(ShardsWritten)
            one.until(lambda: not tiers.worker.busy)
        found = []
        for round in (6, 7):
            one.end_round(round, Votes(writing=True))
            found.append(one.rounds)
        released.set()
        one.end_round(8, Votes())
        # It reports what it wrote, and the session must still be there.
        assert tiers.worker.wait(PATIENCE)
        return [*found, one.rounds[-1]]


def held_up(tiers: Tiers, released: threading.Event, state: State) -> Callable[[], State]:
    """`state`, the copying of which is held up from when it is asked for."""

    def hold() -> None:
        assert released.wait(PATIENCE)

    def give() -> State:
        tiers.copies.submit(hold)
        return state

    return give


def copy_beside_the_passes(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """A settled state: whether the volume waited for its copying, what the step waited, and what was written."""
    tiers = new_tiers()
    released = threading.Event()
    value = torch.zeros(3)
    with scene(link, root, tiers) as one:
        one.saver.end_round(5, Votes(), held_up(tiers, released, State({"value": value}, {}, settled=True)))
        votes = one.saver.votes()
        waited = not one.rounds and not root.exists()
        threading.Timer(0.2, released.set).start()
        one.saver.before_step()
        value.fill_(1)
        one.hear(ShardsWritten)
        (path,) = root.rglob("replicated-*.safetensors")
        return waited, votes.writing, one.rounds, load_file(path)["value"].tolist()


def leave_while_copying(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """Rounds in memory, and slots in use, after a generation was left in the passes after a snapshot."""
    tiers = new_tiers()
    released = threading.Event()
    with scene(link, root, tiers, every=100) as one:
        one.saver.end_round(4, Votes(), held_up(tiers, released, State({"value": torch.zeros(3)}, {}, settled=True)))
        threading.Timer(0.2, released.set).start()
        one.saver.close()
        return one.rounds, any(slot.in_use for slot in tiers.memory.snapshots)


def hanging_volume(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """What a former generation still writes to a volume that does not answer holds up nobody: this one trains, and
    saves as soon as the volume answers."""
    tiers = new_tiers()
    entered, released = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        assert released.wait(PATIENCE)

    tiers.worker.submit(hang)
    assert entered.wait(PATIENCE)
    with scene(link, root, tiers) as one:
        busy = one.saver.votes().writing
        one.end_round(5)
        skipped, rounds = one.saver.totals.skipped, one.rounds
        released.set()
        one.until(lambda: not one.saver.votes().writing)
        one.end_round(10)
        saved = one.hear(ShardsWritten).round
    return busy, skipped, rounds, saved


def left_in_mid_write(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """What a save leaves whose generation was left."""
    tiers = new_tiers()
    released = threading.Event()

    def hold() -> None:
        assert released.wait(PATIENCE)

    tiers.worker.submit(hold)
    with scene(link, root, tiers) as one:
        one.end_round(5, Votes())
    released.set()
    deadline = time.monotonic() + PATIENCE
    while tiers.worker.busy and time.monotonic() < deadline:
        time.sleep(0.01)
    free = not any(slot.in_use for slot in tiers.memory.snapshots)
    return [path.name for path in root.rglob("*")] if root.exists() else [], free


def stop_at_the_end_of_the_round(link: Link, _rank: int, _size: int, root: Path, asked: bool, saving: bool) -> Any:
    """A rank that is asked to stop, or another one is: (which rounds were written, what was raised)."""
    with scene(link, root, save_on_preemption=saving) as one:
        raised = ""
        try:
            if asked:
                one.agent.send(Stop(reason="SIGTERM", seconds=60))
                one.session.poll()
            votes = one.saver.votes()
            threading.Timer(0.3, one.answer, [3]).start()
            one.end_round(3, votes if asked else Votes(stopping=True))
        except Preempted:
            raised = "preempted"
        written = [message.round for message in one.agent.received() if isinstance(message, ShardsWritten)]
        return written, raised, one.saver.saved_round


def finish(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """The last round is saved once, after what was still being written."""
    with scene(link, root) as one:
        one.end_round(5)
        threading.Timer(0.2, one.answer, [5]).start()
        threading.Timer(0.4, one.answer, [7]).start()
        one.saver.finish(7, one.state(7))
        one.saver.finish(7, one.state(7))
        return [message.round for message in one.agent.received() if isinstance(message, ShardsWritten)]


def interrupted(link: Link, _rank: int, _size: int, root: Path) -> str:
    with scene(link, root) as one:
        one.agent.send(Leave(generation=str(GENERATION), reason="replica 1 is gone"))
        try:
            one.saver.finish(7, one.state(7))
        except Interrupted as error:
            return str(error)
        return "nothing"


def broken_off(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """Rounds in memory after ends of rounds that were broken off before, after and in their save, and where no snapshot
    was to be taken; and how many were taken."""
    left = Leave(generation=str(GENERATION), reason="replica 1 is gone")
    with scene(link, root, every=100) as one:
        found = []

        def end(round: int, votes: Votes, save: bool) -> None:
            with suppress(Interrupted), one.saver.keeping(round, votes, one.state(round)):
                if save:
                    one.end_round(round, votes)
                raise Interrupted("1.1", "replica 1 is gone")
            found.append(one.rounds)

        end(1, Votes(), save=False)
        end(2, Votes(), save=True)
        end(3, Votes(full=True), save=False)
        end(4, Votes(copying=True), save=False)
        one.agent.send(left)
        end(5, Votes(), save=True)
        return found, one.saver.totals.snapshots


def without_room(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """A state that no memory can hold costs the checkpoint."""
    with scene(link, root) as one:
        huge = State({"big": torch.zeros(1).expand(1 << 50)}, {})
        one.saver.end_round(5, Votes(), lambda: huge)
        return one.hear(SaveFailed).reason, one.rounds


def with_room_for_one(link: Link, _rank: int, _size: int, root: Path) -> Any:
    """Rounds in memory, and those that were written, once the machine has no more memory than for one snapshot."""
    with scene(link, root, every=2) as one:
        one.end_round(1)
        with patch.object(memory_module, "available_bytes", return_value=0):
            found = [one.rounds]
            for round in (2, 3):
                one.end_round(round)
                found.append(one.rounds)
            written = one.hear(ShardsWritten).round
            one.answer(2)
            threading.Timer(0.2, one.answer, [5]).start()
            one.saver.finish(5, one.state(5))
            return found, [written, one.hear(ShardsWritten).round], one.rounds


def save_again_and_again(link: Link, _rank: int, _size: int, root: Path, saves: int) -> Any:
    """What a process has (descriptors, threads, mapped KiB, files on the volume) after a tenth of the saves, and after
    all of them, of a state that is copied beside the passes and lives on."""
    found = []
    with scene(link, root, every=1, keep=2) as one:
        for round in range(1, saves + 1):
            living = replace(state(0, round), settled=True, dispensable=True)
            one.saver.end_round(round, one.saver.votes(), lambda living=living: living)  # type: ignore[misc]
            one.saver.before_step()
            written = one.hear(ShardsWritten)
            commit(root, GENERATION, round, {0: written.files}, Mesh(data=1), job="gpt")
            prune(root, 2)
            one.answer(round)
            one.until(lambda: not one.saver.votes().writing)
            if round in (saves // 10, saves):
                gc.collect()
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                found.append(
                    (
                        sum(1 for _ in Path("/proc/self/fd").iterdir()),
                        threading.active_count(),
                        pages * 4,
                        sum(1 for _ in root.rglob("*")),
                    )
                )
        assert one.saver.totals.committed == saves
    return found
