"""Who trains with whom: the membership's rules as one pure function.

A generation is entered when the store runs and every rank of every replica waits for one, and is left by all as soon
as any of them is lost. Its number is higher than every number anybody has seen.

Commands are started by their agents, once all replicas are here, under the number of the next generation. Those that
open sessions ask for it, and enter it. The others are in it at once, rendezvous by themselves, and are all started
anew, under another number, when any of them is lost.
"""

from dataclasses import replace
from datetime import datetime

from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import (
    Beat,
    Broken,
    Checked,
    Done,
    Down,
    Enter,
    Failing,
    Finished,
    Hello,
    Holds,
    Leave,
    Ready,
    Refused,
    Report,
    Restarted,
    SaveFailed,
    ShardsWritten,
    Start,
    Unstarted,
    Up,
)
from ringtrain.coordinator import saves
from ringtrain.coordinator.notices import noticed
from ringtrain.coordinator.restarts import is_known, restarted
from ringtrain.coordinator.state import (
    Action,
    AgentConnected,
    AgentLost,
    Close,
    CommitEnded,
    Event,
    Member,
    OwnGroup,
    Received,
    Send,
    State,
    Store,
    StoreDown,
    StoreUp,
)
from ringtrain.coordinator.stragglers import looked_for

Step = tuple[State, tuple[Action, ...]]


class ProtocolError(ValueError):
    """The peer is not an agent of this job, or sends what it must not: its connection is to be closed."""


def step(state: State, event: Event, now: datetime) -> Step:
    """What follows from `event`. Raises ProtocolError (the state then stays as it is)."""
    match event:
        case AgentConnected():
            state, actions = _connected(state, event.connection, event.hello)
        case AgentLost():
            state, actions = _lost(state, event.connection, event.reason)
        case Received():
            state, actions = _received(state, event.connection, event.message, now)
        case OwnGroup():
            state, actions = replace(state, own_group=event.generation == state.started), ()
        case StoreUp():
            state, actions = replace(state, store=Store(event.host, event.port)), ()
        case StoreDown():
            if state.generation is not None:
                state = noticed(
                    state, now, "StoreLost", f"the store of generation {state.generation} ended: {event.reason}"
                )
            state, actions = leave(replace(state, store=None), f"the store ended: {event.reason}")
        case CommitEnded():
            state, actions = saves.ended(state, event.error, now)
    state, more = _advance(state)
    return state, actions + more


def _connected(state: State, connection: int, hello: Hello) -> Step:
    replica = hello.replica
    if hello.job != state.job:
        raise ProtocolError(f"an agent of job {hello.job!r} reached the coordinator of {state.job!r}")
    if not 0 <= replica < state.replicas or hello.ranks != tuple(state.ranks(replica)):
        raise ProtocolError(f"replica {replica} with ranks {hello.ranks} does not belong to {state.replicas} replicas")
    known = state.epochs.get(replica, 0)
    if hello.epoch < known:
        reason = f"a pod of replica {replica} with epoch {known} is known, this one has epoch {hello.epoch}"
        return state, (Send(connection, Refused(reason=reason)), Close(connection))
    actions: tuple[Action, ...] = ()
    old = state.members.get(replica)
    if old is not None:
        state, actions = _lost(state, old.connection, "it has connected anew")
        actions = (Close(old.connection), *actions)
    seen = Generation(hello.epoch, -1)
    state = replace(
        state,
        members={**state.members, replica: Member(connection, hello.epoch)},
        connections={**state.connections, connection: replica},
        epochs={**state.epochs, replica: hello.epoch},
        highest=max(state.highest, seen),
    )
    if state.finished:
        actions = (*actions, Send(connection, Finished()))
    return _aware_of(state, hello.known_generation), actions


def _lost(state: State, connection: int, reason: str) -> Step:
    replica = state.connections.get(connection)
    if replica is None:
        return state, ()
    gone = frozenset(state.ranks(replica))
    state = replace(
        state,
        members={index: member for index, member in state.members.items() if index != replica},
        connections={other: index for other, index in state.connections.items() if index != replica},
        unstarted=state.unstarted - gone,
        ready=state.ready - gone,
        done=state.done - gone,
        beats={rank: beat for rank, beat in state.beats.items() if rank not in gone},
    )
    return _leave_all(state, f"replica {replica} is lost: {reason}")


def _received(state: State, connection: int, message: Up, now: datetime) -> Step:
    replica = state.connections.get(connection)
    if replica is None:
        # Late words of a connection that was replaced.
        return state, ()
    if message.rank not in state.ranks(replica):
        raise ProtocolError(f"replica {replica} speaks for rank {message.rank}, which is not its own")
    match message:
        case Beat():
            return _beat(state, message, now), ()
        case Unstarted():
            return _unstarted(state, message)
        case Ready():
            return _ready(state, message)
        case Broken():
            return _broken(state, message)
        case ShardsWritten() | SaveFailed():
            return _save(state, message, now)
        case Done():
            return replace(state, done=state.done | {message.rank}, ready=state.ready - {message.rank}), ()
        case Report():
            return noticed(state, now, message.reason, f"rank {message.rank}: {message.message}", message.warning), ()
        case Holds() | Checked():
            return state, ()
        case Failing() | Restarted():
            return _ended(state, replica, message, now)


def _beat(state: State, beat: Beat, now: datetime) -> State:
    state = replace(state, beats={**state.beats, beat.rank: beat})
    if beat.progress is None or not _is_current(state, beat.generation):
        return state
    if state.leader is not None and state.leader < beat.rank:
        return state
    return looked_for(replace(state, leader=beat.rank, progress=beat.progress), now)


def _unstarted(state: State, message: Unstarted) -> Step:
    state, actions = _leave_all(_aware_of(state, message.after), f"rank {message.rank} has left it")
    rank = {message.rank}
    return replace(state, unstarted=state.unstarted | rank, done=state.done - rank), actions


def _ready(state: State, message: Ready) -> Step:
    state = _aware_of(state, message.after)
    # Whoever asks for a generation has none: the current one has lost a member.
    state, actions = leave(state, f"rank {message.rank} has left it")
    rank = {message.rank}
    return replace(state, ready=state.ready | rank, done=state.done - rank), actions


def _aware_of(state: State, generation: str | None) -> State:
    """No later generation will have the number of `generation`, or a lower one."""
    return state if generation is None else replace(state, highest=max(state.highest, _parse(generation)))


def _leave_all(state: State, reason: str, blamed: int | None = None) -> Step:
    """Sessions leave the current generation; ranks without one end, and wait for another start."""
    state, actions = leave(state, reason)
    if state.started is None:
        return state, actions
    message = Leave(generation=str(state.started), reason=reason, blamed=blamed)
    return replace(state, started=None, own_group=False), (*actions, *_to_all(state, message))


def _broken(state: State, message: Broken) -> Step:
    if _is_current(state, message.generation):
        return leave(state, f"a collective failed at rank {message.rank}: {message.reason}")
    if message.generation == str(state.started):
        return _leave_all(state, f"rank {message.rank} ends: {message.reason}")
    return state, ()


def _save(state: State, message: ShardsWritten | SaveFailed, now: datetime) -> Step:
    if not _is_current(state, message.generation):
        return state, ()
    return saves.written(state, message) if isinstance(message, ShardsWritten) else saves.failed(state, message, now)


def _ended(state: State, replica: int, message: Failing | Restarted, now: datetime) -> Step:
    if isinstance(message, Restarted):
        if is_known(state, replica, message):
            return state, ()
        reason = f"rank {message.rank} is started again: {message.message}"
        return leave(restarted(state, replica, message, now), reason)
    if state.generation is None and state.started is None and message.rank not in state.beats:
        # It has no session, and its generation is left already: it fails because others did.
        return state, ()
    state = noticed(state, now, "RankFailing", f"rank {message.rank}: {message.message}")
    return _leave_all(state, f"rank {message.rank} fails: {message.message}", message.rank)


def leave(state: State, reason: str) -> Step:
    """Everybody leaves the current generation, if there is one."""
    if state.generation is None:
        return state, ()
    message = Leave(generation=str(state.generation), reason=reason)
    state = replace(state, generation=None, leader=None, saves={}, given_up=frozenset())
    return state, _to_all(state, message)


def _advance(state: State) -> Step:
    """What can begin now: a commit, processes, the next generation, or the end."""
    state, actions = saves.next_commit(state)
    if state.finished or state.committing is not None:
        # A commit's outcome must be settled before the job ends, and before members look for the newest checkpoint.
        return state, actions
    if len(state.done) == state.world_size:
        state = replace(state, finished=True, generation=None, started=None, own_group=False)
        return state, (*actions, *_to_all(state, Finished()))
    if _may_start(state):
        generation = _next(state)
        start = Start(generation=str(generation), everybody=len(state.unstarted) == state.world_size)
        state = replace(state, started=generation, highest=generation, unstarted=frozenset())
        return state, (*actions, *_to_all(state, start))
    if state.generation is not None or state.store is None or len(state.ready) < state.world_size:
        return state, actions
    generation = state.started or _next(state)
    enter = Enter(
        generation=str(generation),
        world_size=state.world_size,
        store_host=state.store.host,
        store_port=state.store.port,
    )
    state = replace(state, generation=generation, highest=generation, started=None, own_group=False, ready=frozenset())
    return state, (*actions, *_to_all(state, enter))


def _may_start(state: State) -> bool:
    """Whether all replicas are here and every process is still to be started, or has a session and needs no start."""
    if not state.unstarted or len(state.members) < state.replicas:
        return False
    return len(state.unstarted.union(state.beats)) == state.world_size


def _next(state: State) -> Generation:
    return Generation(state.highest.epoch, state.highest.attempt + 1)


def _is_current(state: State, generation: str | None) -> bool:
    return generation is not None and state.generation is not None and _parse(generation) == state.generation


def _parse(generation: str) -> Generation:
    try:
        return Generation.parse(generation)
    except ValueError as error:
        raise ProtocolError(str(error)) from None


def _to_all(state: State, message: Down) -> tuple[Action, ...]:
    return tuple(Send(member.connection, message) for _, member in sorted(state.members.items()))
