import asyncio
import os
from pathlib import Path

from ringtrain_operator.local import pod_log

MORE_THAN_A_PIPE_HOLDS = 1 << 18


def keep(log: Path, *texts: bytes) -> list[OSError]:
    """What was lost, after all `texts` were printed."""

    async def whole() -> list[OSError]:
        lost: list[OSError] = []
        reading, writing = os.pipe()
        kept = asyncio.create_task(pod_log.keep(reading, log, lost.append))
        for text in texts:
            # Blocks as long as nobody reads.
            await asyncio.to_thread(_write, writing, text)
        os.close(writing)
        await asyncio.wait_for(kept, 60)
        return lost

    return asyncio.run(whole())


def _write(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]


def test_all_that_is_printed_is_appended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"before\n")
    long = b"x" * MORE_THAN_A_PIPE_HOLDS
    assert keep(log, b"hello\n", long) == []
    assert log.read_bytes() == b"before\nhello\n" + long


def test_a_log_that_cannot_be_written_blocks_nobody() -> None:
    lost = keep(Path("/dev/full"), b"hello\n", b"x" * MORE_THAN_A_PIPE_HOLDS)
    assert lost
    assert {error.strerror for error in lost} == {"No space left on device"}


def test_a_log_whose_folder_is_gone_blocks_nobody(tmp_path: Path) -> None:
    (error, *_) = keep(tmp_path / "gone" / "log", b"hello\n")
    assert error.filename == str(tmp_path / "gone" / "log")
