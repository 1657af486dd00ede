"""`python -m ringtrain.runtime.standby`: imports and reads all that a rank of the built-in trainer needs, and forks
ranks.

What was imported and read is shared by all forks, in time and in memory. It must never start a thread or touch a GPU:
neither survives a fork.
"""

import gc
import os
import socket
import sys
import time
from contextlib import suppress
from typing import NoReturn

from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.standby import GO, MAXIMUM_DESCRIPTORS, MAXIMUM_PACKET, VARIABLE, Forked, Order
from ringtrain.processes import die_with_parent

_ADOPTION_STEP = 1e-3


def main() -> None:
    """Until the agent closes the connection."""
    connection = socket.socket(fileno=int(os.environ.pop(VARIABLE)))
    connection.set_inheritable(False)
    # NumPy imports its random generators when the first is made.
    import numpy.random  # noqa: F401

    from ringtrain.runtime.run import run
    from ringtrain.train import train

    _keep_text(ReplicaEnvironment.from_env(os.environ))
    # Collected here, and then left alone: a collection in a fork would copy what all of them share.
    gc.collect()
    gc.freeze()
    while True:
        packet, descriptors, _, _ = socket.recv_fds(connection, MAXIMUM_PACKET, MAXIMUM_DESCRIPTORS)
        if not packet:
            return
        if _fork(connection, Order.model_validate_json(packet), descriptors):
            run(train)
            sys.stdout.flush()
            sys.stderr.flush()
            # Taking torch apart module by module takes longer than the whole end of a job.
            os._exit(0)


def _keep_text(environment: ReplicaEnvironment) -> None:
    """Reads what all ranks train on: a new one needs not."""
    from ringtrain.data.corpus import keep_corpus

    if environment.trainer is not None:
        # A rank meets the same error, and tells of it.
        with suppress(Exception):
            keep_corpus(environment.trainer.data)


def _fork(connection: socket.socket, order: Order, descriptors: list[int]) -> bool:
    """Whether this is the rank: it returns in the standby and in the rank."""
    gate, opened = os.pipe()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        # Its own child is nobody's, and so comes to the agent.
        rank = os.fork()
        if rank:
            os.write(tell, str(rank).encode())
            os._exit(0)
        connection.close()
        for descriptor in (opened, told, tell):
            os.close(descriptor)
        _become(order, descriptors, gate)
        return True
    os.close(gate)
    os.close(tell)
    os.waitpid(child, 0)
    pid = int(os.read(told, 32))
    os.close(told)
    for descriptor in descriptors:
        os.close(descriptor)
    connection.sendall(Forked(pid=pid).to_json().encode())
    if connection.recv(MAXIMUM_PACKET) == GO:
        os.write(opened, GO)
    os.close(opened)
    return False


def _become(order: Order, descriptors: list[int], gate: int) -> None:
    os.setsid()
    while os.getppid() != order.agent:
        # The agent may have ended by now: then nobody opens the gate either.
        if os.getppid() == 1:
            _end()
        time.sleep(_ADOPTION_STEP)
    die_with_parent(order.agent)
    if os.read(gate, len(GO)) != GO:
        _end()
    os.close(gate)
    if order.output is not None:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(descriptors[order.output], stream.fileno())
        os.close(descriptors[order.output])
    os.environ.update(order.environment)
    for variable, places in order.descriptors.items():
        os.environ[variable] = ",".join(str(descriptors[place]) for place in places)


def _end() -> NoReturn:
    os._exit(1)


if __name__ == "__main__":
    main()
