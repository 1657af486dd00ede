"""What ranks print, through real pipes."""

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtrain.agent.output import LONGEST_LINE, Output
from ringtrain.contract.output import split
from ringtrain.processes import Children

PATIENCE = 60.0


@pytest.fixture
def log(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    yield descriptor
    os.close(descriptor)


def written(log: int) -> bytes:
    return os.pread(log, os.fstat(log).st_size, 0)


async def print_all(log: int, *texts: bytes) -> None:
    """Each by a rank of its own, all at once."""

    async def print_one(rank: int, text: bytes) -> None:
        with Output(rank, log) as output:
            await asyncio.to_thread(_write, output.descriptor, text)
        await asyncio.wait_for(output.ended, PATIENCE)

    await asyncio.gather(*(print_one(rank, text) for rank, text in enumerate(texts)))


def _write(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (b"", b""),
        (b"a\n\nb\n", b"[rank 0] a\n[rank 0] \n[rank 0] b\n"),
        (b"no end", b"[rank 0] no end\n"),
        (b"1%\r2%\r\n\xff\0\n", b"[rank 0] 1%\r2%\r\n[rank 0] \xff\0\n"),
    ],
)
def test_every_line_has_its_rank(log: int, printed: bytes, told: bytes) -> None:
    asyncio.run(print_all(log, printed))
    assert written(log) == told


def test_a_long_line_comes_in_pieces(log: int) -> None:
    size = 3 * LONGEST_LINE + 10
    asyncio.run(print_all(log, b"x" * size + b"\nnext\n"))
    *pieces, following = written(log).decode().splitlines()
    assert [split(piece) for piece in pieces] == [(0, "x" * LONGEST_LINE)] * 3 + [(0, "x" * 10)]
    assert following == "[rank 0] next"


def test_lines_of_ranks_never_mix() -> None:
    """In a pipe too, which takes long lines in parts."""
    reading, writing = os.pipe()
    read: list[bytes] = []

    def drain(reading: int) -> None:
        with open(reading, "rb") as pipe:
            read.append(pipe.read())

    drained = threading.Thread(target=drain, args=[reading])
    drained.start()
    try:
        asyncio.run(print_all(writing, *((b"%d" % rank * 30_000 + b"\n") * 50 for rank in range(4))))
    finally:
        os.close(writing)
        drained.join(PATIENCE)
    lines = Counter(read[0].decode().splitlines())
    assert lines == {f"[rank {rank}] {str(rank) * 30_000}": 50 for rank in range(4)}


def test_a_log_that_takes_nothing_stops_no_rank() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        asyncio.run(print_all(full, b"line\n" * 100_000))
    finally:
        os.close(full)


def test_a_log_that_nobody_reads_does_not_stop_the_loop() -> None:
    reading, writing = os.pipe()

    async def run() -> None:
        with Output(0, writing) as output:
            written = asyncio.create_task(asyncio.to_thread(_write, output.descriptor, b"line\n" * 100_000))
            done, _ = await asyncio.wait([written, output.ended], timeout=0.2)
            assert not done
            os.close(reading)
            await asyncio.wait_for(written, PATIENCE)
        await asyncio.wait_for(output.ended, PATIENCE)

    try:
        asyncio.run(run())
    finally:
        os.close(writing)


def test_hundreds_of_processes_leave_nothing_open(log: int) -> None:
    def held() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def run() -> None:
        children = Children()
        before = held()
        for number in range(300):
            with Output(1, log) as output:
                child = children.start(
                    ["sh", "-c", f"echo {number}; echo error >&2"],
                    os.environ,
                    stdout=output.descriptor,
                    stderr=output.descriptor,
                )
            await asyncio.wait_for(asyncio.gather(child.wait(), output.ended), PATIENCE)
        assert held() == before

    threads = set(threading.enumerate())
    asyncio.run(run())
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE)
    assert set(threading.enumerate()) <= threads
    assert written(log).decode().splitlines() == [
        line for number in range(300) for line in (f"[rank 1] {number}", "[rank 1] error")
    ]


def test_it_writes_to_standard_output_after_the_loop_is_closed_too() -> None:
    code = """
import asyncio, os, threading
from ringtrain.agent.output import Output

async def start():
    with Output(3) as output:
        return os.dup(output.descriptor)

kept = asyncio.run(start())
os.write(kept, b"late\\n")
os.close(kept)
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[rank 3] late\n", "")
