"""The process manager without a library: lines in, lines out."""

import os
import socket
from collections.abc import Iterator
from functools import partial

import pytest
from torch._C._distributed_c10d import HashStore, PrefixStore

from ringtrain.comm.transport.pmi import ProcessManager, environment
from ringtrain.runtime.errors import BadConfiguration
from trainer.comm.members import together


class Late(Exception):
    pass


def in_time() -> None:
    pass


def too_late() -> None:
    raise Late


Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def members(ends: Ends) -> list[ProcessManager]:
    """Three."""
    store = HashStore()
    return [ProcessManager(ends[0], PrefixStore("mpi", store), 3) for _ in range(3)]


def test_what_one_rank_puts_all_get(members: list[ProcessManager]) -> None:
    first, second, _ = members
    line = "cmd=put kvsname=kvs key=-allgather-0 value=a b=c value=d"
    assert first.answer(line, in_time) == "cmd=put_result rc=0 msg=success"
    expected = "cmd=get_result rc=0 msg=success value=a b=c value=d"
    assert second.answer("cmd=get kvsname=kvs key=-allgather-0", in_time) == expected


def test_what_nobody_has_put_is_not_waited_for(members: list[ProcessManager]) -> None:
    answer = members[0].answer("cmd=get kvsname=kvs key=PMI_process_mapping", in_time)
    assert answer.startswith("cmd=get_result rc=-1 ")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"),
        ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=256 vallen_max=4096 rc=0"),
        ("cmd=get_appnum", "cmd=appnum appnum=0 rc=0"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs rc=0"),
        ("cmd=get_universe_size", "cmd=universe_size size=3 rc=0"),
    ],
)
def test_questions_about_the_world(members: list[ProcessManager], line: str, answer: str) -> None:
    assert members[0].answer(line, in_time) == answer


def test_barriers_let_all_through_together_again_and_again(members: list[ProcessManager]) -> None:
    for _ in range(3):
        answers = together([partial(member.answer, "cmd=barrier_in", in_time) for member in members])
        assert answers == ["cmd=barrier_out rc=0"] * 3


def test_a_barrier_can_be_given_up(members: list[ProcessManager]) -> None:
    with pytest.raises(Late):
        members[0].answer("cmd=barrier_in", too_late)


@pytest.mark.parametrize("line", ["cmd=spawn nprocs=2", "mcmd=spawn", "", "cmd"])
def test_what_is_not_known_is_told(members: list[ProcessManager], line: str) -> None:
    with pytest.raises(BadConfiguration, match=r"not PMI-1: install MPICH or Intel MPI"):
        members[0].answer(line, in_time)


def test_a_call_is_served_until_it_returns(ends: Ends) -> None:
    ours, theirs = ends
    manager = ProcessManager(ours, HashStore(), 1)
    descriptor = int(environment(theirs.fileno(), 0, 1)["PMI_FD"])

    def library() -> list[bytes]:
        os.write(descriptor, b"cmd=get_app")
        os.write(descriptor, b"num\ncmd=get_my_kvsname\n")
        with theirs.makefile("rb") as reader:
            return [reader.readline(), reader.readline()]

    assert manager.serve(library, in_time) == [b"cmd=appnum appnum=0 rc=0\n", b"cmd=my_kvsname kvsname=kvs rc=0\n"]


def test_a_call_that_fails_raises_and_one_that_waits_can_be_left(ends: Ends) -> None:
    ours, theirs = ends
    manager = ProcessManager(ours, HashStore(), 1)
    with pytest.raises(ZeroDivisionError):
        manager.serve(lambda: 1 // 0, in_time)
    with pytest.raises(Late):
        manager.serve(lambda: theirs.recv(1), too_late)
    ours.send(b"x")  # Lets the call end.
