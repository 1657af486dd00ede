import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.volume import commit, staging
from ringtrain.checkpoint.writer import Writer
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import Committed, Leave, SaveFailed, ShardsWritten
from ringtrain.runtime.errors import Interrupted
from ringtrain.runtime.session import Session
from trainer.checkpoint.checkpoints import state
from trainer.checkpoint.sessions import AgentEnd, open_session

GENERATION = Generation(1, 1)


@pytest.fixture
def session() -> Iterator[tuple[Session, AgentEnd]]:
    with open_session(generation=str(GENERATION)) as opened:
        yield opened


def answer(agent: AgentEnd, error: str) -> None:
    """What the coordinator is going to say."""
    agent.send(Committed(generation=str(GENERATION), round=5, error=error))


def test_files_are_written_and_reported(tmp_path: Path, session: tuple[Session, AgentEnd]) -> None:
    rank, agent = session
    answer(agent, "")
    assert Writer(tmp_path, rank, GENERATION, [0]).save(5, state(0, 5)) == ""
    (written,) = agent.received()
    assert isinstance(written, ShardsWritten)
    assert (written.round, written.generation) == (5, "1.1")
    commit(tmp_path, GENERATION, 5, {0: written.files}, Mesh(data=1), job="gpt")


def test_a_volume_that_takes_no_more_costs_only_the_checkpoint(
    tmp_path: Path, session: tuple[Session, AgentEnd]
) -> None:
    rank, agent = session
    answer(agent, "rank 0: full")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        problem = Writer(tmp_path, rank, GENERATION, [0]).save(5, State({"big": torch.zeros(1 << 20)}, {}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert problem == "rank 0: full"
    (failed,) = agent.received()
    assert isinstance(failed, SaveFailed)
    assert failed.reason == f"{tmp_path}: File too large"
    assert list(tmp_path.iterdir()) == []


def test_a_volume_that_is_not_there_costs_only_the_checkpoint(
    tmp_path: Path, session: tuple[Session, AgentEnd]
) -> None:
    rank, agent = session
    answer(agent, "rank 0: not there")
    (tmp_path / "file").write_text("no directory")
    assert Writer(tmp_path / "file", rank, GENERATION, [0]).save(5, state(0, 5)) == "rank 0: not there"
    (failed,) = agent.received()
    assert isinstance(failed, SaveFailed)
    assert "Not a directory" in failed.reason


def test_what_the_coordinator_gave_up_is_removed(tmp_path: Path, session: tuple[Session, AgentEnd]) -> None:
    rank, agent = session
    answer(agent, "rank 1: full")
    assert Writer(tmp_path, rank, GENERATION, [0]).save(5, state(0, 5)) == "rank 1: full"
    assert list(tmp_path.iterdir()) == []


def test_files_under_a_manifest_are_left_alone(tmp_path: Path, session: tuple[Session, AgentEnd]) -> None:
    rank, agent = session
    answer(agent, "no answer in time")
    (staging(tmp_path, GENERATION, 5) / "manifest.json").write_text("being committed")
    Writer(tmp_path, rank, GENERATION, [0]).save(5, state(0, 5))
    assert (staging(tmp_path, GENERATION, 5) / "local-00000.safetensors").exists()


def test_a_left_generation_interrupts_the_wait(tmp_path: Path, session: tuple[Session, AgentEnd]) -> None:
    rank, agent = session
    agent.send(Leave(generation=str(GENERATION), reason="replica 1 is gone"))
    with pytest.raises(Interrupted, match="replica 1 is gone"):
        Writer(tmp_path, rank, GENERATION, [0]).save(5, state(0, 5))
