"""`ringtrain.run`: enters training code once per generation, in the same process, until the whole job is done."""

import gc
import os
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

import torch

from ringtrain.checkpoint.checkpoints import Checkpoints
from ringtrain.checkpoint.memory import Memory
from ringtrain.checkpoint.tiers import Tiers
from ringtrain.comm.forming import form_group
from ringtrain.comm.group import Group
from ringtrain.comm.transport import mpi_world
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import Enter
from ringtrain.contract.phases import Phase
from ringtrain.preflight.check import Check
from ringtrain.runtime import failure, stack
from ringtrain.runtime.context import Context
from ringtrain.runtime.errors import BadConfiguration, EndedWithPeer, Interrupted, JobFinished, PeersUnreachable
from ringtrain.runtime.session import Session

_MAXIMUM_BREAKS = 10
"""Generations in a row that broke here and got no further than those before, until this replica gives up."""
_COLLECTIVE_MARGIN = 60.0


def run(train_fn: Callable[[Context], None]) -> None:
    """Trains. `train_fn` is called again whenever the members have changed; it returns when all rounds are trained.

    Returns once all ranks of the job are done. Ends the process with an exit code of the contract when `train_fn`
    raises or the replica is asked to stop. Raises NoSession outside a TrainingJob.
    """
    session = Session.from_environment()
    stack.tell_when_asked()
    try:
        _train(session, train_fn)
    except Exception as error:
        end_by(session, error)
    session.close()


def _train(session: Session, train_fn: Callable[[Context], None]) -> None:
    device = device_of(session)
    tiers = Tiers(Memory.from_environment())
    check = Check(session, device)
    state: dict[str, Any] = {}
    breaks = furthest = 0
    while True:
        # What lies in memory only is still to be saved, once all others are here again.
        session.saves_before_stop = _saves_before_stop(session) and tiers.hold_state
        try:
            enter = session.next_generation()
        except JobFinished:
            return
        group: Group | None = None
        context: Context | None = None
        broken, left, finished = "", "", False
        try:
            group = form(session, enter)
            check.run(group, Generation.parse(enter.generation))
            session.beat(Phase.COMPILING)
            context = _context(session, enter, device, group, tiers, state)
            train_fn(context)
            context.training.finish()
            session.done(session.progress.round if session.progress else context.round or 0)
            session.wait_finished()
            finished = True
        except Interrupted as error:
            left = error.reason
        except RuntimeError as error:
            if not failure.is_peer_loss(error):
                raise
            broken = str(error)
        # Only now: inside `except`, the traceback's frames keep the group, and so its sockets, alive.
        if broken:
            session.broken(broken)
            reached = context.round or 0 if context is not None else 0
            breaks = 1 if reached > furthest else breaks + 1
            furthest = max(furthest, reached)
        if mpi_world.entered() and not finished:
            _end_with_peer(broken, left, trained=context is not None and context.round is not None)
        if context is not None:
            context.training.close()
        context = None
        gc.collect()
        if group is not None:
            group.destroy()
        if finished:
            return
        if breaks >= _MAXIMUM_BREAKS:
            raise PeersUnreachable(f"{breaks} generations in a row broke and got no further: {broken}")


def _saves_before_stop(session: Session) -> bool:
    settings = session.environment.checkpoint
    return settings is not None and settings.save_on_preemption


def _end_with_peer(broken: str, left: str, trained: bool) -> NoReturn:
    """Another generation would need another MPI. Leaving the group is left to the end of the process."""
    if broken and not trained:
        raise PeersUnreachable(f"MPI between machines failed before the first round: {broken}")
    raise EndedWithPeer(f"MPI cannot go on without a lost peer, so all ranks start anew: {broken or left}")


def device_of(session: Session) -> torch.device:
    """Raises BadConfiguration when there is no GPU for this rank."""
    if session.environment.device == "cpu":
        return torch.device("cpu")
    if torch.cuda.device_count() <= session.local_rank:
        raise BadConfiguration(
            f"rank {session.rank} needs GPU {session.local_rank}, but this replica sees {torch.cuda.device_count()}: "
            "ask for as many GPUs as procsPerReplica, or set device to cpu"
        )
    torch.cuda.set_device(session.local_rank)
    return torch.device("cuda", session.local_rank)


def form(session: Session, enter: Enter) -> Group:
    """Meets all ranks of the generation. Raises what forming does."""
    environment, timeouts = session.environment, session.environment.timeouts
    # A peer may be silent for as long as its phase allows; its agent's probe judges it, not our time-out.
    slowest = max(timeouts.compiling, timeouts.training, timeouts.checkpointing, timeouts.restoring)
    session.beat(Phase.WAITING)
    return form_group(
        rank=session.rank,
        world_size=enter.world_size,
        store_host=enter.store_host,
        store_port=enter.store_port,
        generation=enter.generation,
        device=environment.device,
        address=environment.addresses.of(environment.replica),
        timeout=timedelta(seconds=slowest + _COLLECTIVE_MARGIN),
        poll=session.poll,
        processes=environment.procs_per_replica,
        mesh=environment.parallelism.mesh(enter.world_size, environment.procs_per_replica),
    )


def _context(
    session: Session, enter: Enter, device: torch.device, group: Group, tiers: Tiers, state: dict[str, Any]
) -> Context:
    generation = Generation.parse(enter.generation)
    settings = session.environment.checkpoint
    return Context(
        session=session,
        group=group,
        generation=generation,
        rank=session.rank,
        world_size=enter.world_size,
        local_rank=session.local_rank,
        device=device,
        environment=session.environment,
        checkpoints=Checkpoints(settings, tiers, session, generation, group) if settings is not None else None,
        state=state,
    )


def end_by(session: Session, error: Exception) -> NoReturn:
    """Ends the process with the code that `error` stands for, and tells why."""
    code = failure.exit_code(error)
    if code is not ExitCode.PREEMPTED:
        traceback.print_exception(error)
        session.failing(code, failure.message(error), session.progress.round if session.progress else None)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: tearing down groups whose peers have gone can block for minutes.
    os._exit(code)
