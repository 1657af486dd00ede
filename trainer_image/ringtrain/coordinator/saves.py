"""When a checkpoint is committed: once every rank of the generation has written its part, and one at a time."""

from dataclasses import replace
from datetime import datetime

from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import Committed, SaveFailed, ShardsWritten
from ringtrain.contract.report import CheckpointRecord
from ringtrain.coordinator.notices import noticed
from ringtrain.coordinator.state import Action, Commit, Save, Send, State


def written(state: State, message: ShardsWritten) -> tuple[State, tuple[Action, ...]]:
    """A rank of the current generation has written its part."""
    round = message.round
    if state.generation is None or round in state.given_up:
        return state, ()
    before = state.saves.get(round, Save(state.generation, round, {}))
    save = replace(
        before,
        shards={**before.shards, message.rank: message.files},
        layouts={**before.layouts, message.rank: message.layout},
    )
    return replace(state, saves={**state.saves, round: save}), ()


def failed(state: State, message: SaveFailed, now: datetime) -> tuple[State, tuple[Action, ...]]:
    """A rank of the current generation could not: the checkpoint is given up, and everybody told. Not when its commit
    has begun, of which the end is told: who heard of a failure would remove files in the midst of it."""
    round = message.round
    if round in state.given_up or _commits(state, message):
        return state, ()
    error = f"rank {message.rank}: {message.reason}"
    state = replace(
        state,
        saves={other: save for other, save in state.saves.items() if other != round},
        given_up=state.given_up | {round},
    )
    answer = Committed(generation=message.generation, round=round, error=error)
    return _given_up(state, round, error, now), _to_all(state, answer)


def next_commit(state: State) -> tuple[State, tuple[Action, ...]]:
    """Begins the commit of the oldest complete checkpoint, unless one runs."""
    complete = [round for round, save in state.saves.items() if len(save.shards) == state.world_size]
    if state.committing is not None or not complete:
        return state, ()
    round = min(complete)
    save = state.saves[round]
    rest = {other: kept for other, kept in state.saves.items() if other != round}
    return replace(state, saves=rest, committing=save), (Commit(save),)


def why_unfit(save: Save, mesh: Mesh) -> str:
    """Why the files of ranks of `mesh` make no checkpoint together; empty when they do, as far as the ranks have told.

    Nobody could read what was committed so, and older ones would be deleted for it.
    """
    for rank, layout in sorted(save.layouts.items()):
        first = mesh.part(rank)
        if layout != save.layouts[first]:
            return (
                f"ranks {first} and {rank} hold different tensors: what context.checkpoint() is given must have "
                "tensors of the same names, shapes and types on all ranks"
            )
    return ""


def ended(state: State, error: str, now: datetime) -> tuple[State, tuple[Action, ...]]:
    """The running commit ended; `error` is empty when it succeeded."""
    save = state.committing
    if save is None:
        return state, ()
    state = replace(state, committing=None)
    if error:
        state = _given_up(state, save.round, error, now)
    else:
        state = replace(state, last_checkpoint=CheckpointRecord(round=save.round, time=now))
    return state, _to_all(state, Committed(generation=str(save.generation), round=save.round, error=error))


def _commits(state: State, message: SaveFailed) -> bool:
    running = state.committing
    return running is not None and (str(running.generation), running.round) == (message.generation, message.round)


def _given_up(state: State, round: int, error: str, now: datetime) -> State:
    return noticed(state, now, "CheckpointFailed", f"the checkpoint of round {round} was given up: {error}")


def _to_all(state: State, message: Committed) -> tuple[Action, ...]:
    return tuple(Send(member.connection, message) for _, member in sorted(state.members.items()))
