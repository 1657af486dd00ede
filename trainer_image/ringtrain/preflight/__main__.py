"""`python -m ringtrain.preflight GENERATION`: the check of a rank's machine before the command that it will run.

Its agent is told what it measures and starts the command when it has ended well. All ranks of the generation do so.
"""

import sys
import time
from contextlib import suppress

from ringtrain.comm.errors import PeerLost
from ringtrain.contract.addresses import STORE_PORT
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import Enter
from ringtrain.preflight.check import Check
from ringtrain.runtime import stack
from ringtrain.runtime.errors import PeersUnreachable
from ringtrain.runtime.run import device_of, end_by, form
from ringtrain.runtime.session import Session


def main(generation: Generation) -> None:
    session = Session.from_environment()
    stack.tell_when_asked()
    try:
        _check(session, generation)
    except Exception as error:
        end_by(session, error)
    session.close()


def _check(session: Session, generation: Generation) -> None:
    environment = session.environment
    enter = Enter(
        # Commands that open sessions enter the generation itself.
        generation=f"{generation}/preflight",
        world_size=environment.world_size,
        store_host=environment.addresses.of(0),
        store_port=STORE_PORT,
    )
    lost = ""
    try:
        check = Check(session, device_of(session))
        group = form(session, enter)
        check.run(group, generation)
        with suppress(PeerLost):
            # Whoever comes out of it may end: all know that all are fit.
            group.barrier()
    except PeerLost as error:
        lost = str(error)
    if lost:
        # Who is the cause says so, and then all are ended. The first of those that failed is taken for it.
        _wait_for_the_end(session, environment.timeouts.checking)
        raise PeersUnreachable(lost)


def _wait_for_the_end(session: Session, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        session.poll()
        session.pause()


if __name__ == "__main__":
    main(Generation.parse(sys.argv[1]))
