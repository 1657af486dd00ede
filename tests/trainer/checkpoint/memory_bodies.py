"""What ranks do in the tests of checkpoints in memory."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ringtrain.checkpoint.memory import name_of
from ringtrain.checkpoint.reader import Reader
from ringtrain.checkpoint.saver import Saver
from ringtrain.checkpoint.tiers import Tiers
from ringtrain.checkpoint.votes import Votes
from ringtrain.contract.environment import CheckpointSettings, Recovery, Replicate
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import Report
from ringtrain.runtime.errors import BadConfiguration
from trainer.checkpoint.checkpoints import state
from trainer.checkpoint.saver_bodies import PATIENCE, new_tiers
from trainer.checkpoint.sessions import open_session
from trainer.comm.ranks import Link

GENERATION = Generation(1, 1)


def save_and_load(
    link: Link,
    rank: int,
    size: int,
    root: Path,
    rounds: Sequence[Sequence[int]],
    lost: Sequence[int],
    replicate: Replicate,
    readers: Mesh,
    torn: Sequence[int] = (),
    every: int = 1000,
    memory_every: int = 1,
    changed: Sequence[int] | None = None,
    recovery: Recovery = "Live",
    counted: bool = True,
    lossless: bool = False,
) -> dict[str, Any]:
    """Each rank takes snapshots of its `rounds`, one machine each; memories of `lost` ranks are lost; and what all
    ranks, or those of `readers`, go back to. `torn` ranks find a file of their newest snapshot cut off. Living states
    count unless `changed` is None: those of these ranks were trained on, behind autograd's back or not (`counted`).
    `lossless`: nobody needs the local state for the same bits."""
    tiers = new_tiers()
    settings = CheckpointSettings(directory=str(root), every=every, memory_every=memory_every, replicate=replicate)
    group = link.form(rank, size)
    with open_session(rank, size, str(GENERATION)) as (session, _):
        saver = Saver(settings, tiers, session, GENERATION, group)
        for round in range(1, 1 + max(max(own, default=0) for own in rounds)):
            votes = saver.votes()
            if round in rounds[rank]:
                living = replace(state(rank, round), dispensable=changed is not None, lossless=lossless)
                saver.end_round(round, votes, lambda living=living: living)  # type: ignore[misc]
            deadline = time.monotonic() + PATIENCE
            while saver.votes().copying and time.monotonic() < deadline:
                time.sleep(0.01)
        group.barrier()
        for tensor in living.replicated["model"].values() if rank in (changed or ()) else ():
            (tensor if counted else tensor.data).mul_(2)
        saver.close()
        # It reports what it wrote, and the session must still be there.
        assert tiers.worker.wait(PATIENCE)
    group.destroy()
    held = sorted((name_of(manifest).round, manifest.files[-1].path) for manifest, _ in tiers.memory.held())
    if rank in lost:
        tiers = new_tiers()
    if rank in torn:
        newest, slot = max(tiers.memory.held(), key=lambda pair: name_of(pair[0]))
        slot.files[len(newest.files) - 1].resize(10)
    result: dict[str, Any] = {"held": held, "round": None}
    if rank < readers.size:
        result |= _load(link, rank, readers, root, tiers, recovery)
        result["kept"] = sorted(name_of(manifest).round for manifest, _ in tiers.memory.held())
    return result


def take_no_copies(link: Link, rank: int, size: int, root: Path) -> tuple[list[int], list[str]]:
    """(rounds in memory, what was told) of a rank, when one of them has no memory for copies."""
    tiers = new_tiers()
    if rank == 1:
        for slot in tiers.memory.copies:
            slot.acquire()
    settings = CheckpointSettings(directory=str(root), every=1000, replicate="Always")
    group = link.form(rank, size)
    with open_session(rank, size, str(GENERATION)) as (session, agent):
        saver = Saver(settings, tiers, session, GENERATION, group)

        def votes() -> Votes:
            everywhere = group.all_gather_json(saver.votes().values())
            return Votes.of_sums([sum(votes) for votes in zip(*everywhere, strict=True)])

        saver.end_round(1, votes(), lambda: state(rank, 1))
        deadline = time.monotonic() + PATIENCE
        while not votes().uncopied:
            assert time.monotonic() < deadline
        for round in (2, 3):
            saver.end_round(round, votes(), lambda round=round: state(rank, round))  # type: ignore[misc]
        saver.close()
        told = [message.message for message in agent.received() if isinstance(message, Report)]
    group.destroy()
    return sorted(name_of(manifest).round for manifest, _ in tiers.memory.held()), told


def _load(link: Link, rank: int, mesh: Mesh, root: Path, tiers: Tiers, recovery: Recovery) -> dict[str, Any]:
    group = link.form(rank, mesh.size, mesh=mesh)
    result: dict[str, Any] = {}
    with open_session(rank, mesh.size) as (session, agent):
        try:
            restored = Reader(root, session, group, exact=recovery == "Exact").load(tiers)
        except BadConfiguration as error:
            restored = None
            result["refused"] = str(error)
        if restored is not None:
            local = restored.state.local
            result = {
                "round": restored.round,
                "name": restored.name,
                "weights": {name: tensor.tolist() for name, tensor in restored.state.replicated["model"].items()},
                "own": None if local is None else local["own"].tolist(),
            }
        result["reports"] = [message.message for message in agent.received() if isinstance(message, Report)]
    group.destroy()
    return result
