from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from ringtrain.checkpoint.manifest import FILE_NAME
from ringtrain.checkpoint.state import State
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from trainer.checkpoint import bodies
from trainer.checkpoint.checkpoints import flip, save, save_states
from trainer.comm.ranks import Ranks

pytestmark = pytest.mark.distributed

SIZE = 3
MESH = Mesh(data=SIZE)


def load(root: Path, mesh: Mesh = MESH, wanted: Sequence[str] = ()) -> list[dict[str, Any]]:
    with Ranks() as ranks:
        return ranks.run(mesh.size, bodies.load, root, mesh, wanted)


def test_an_empty_volume_gives_none(tmp_path: Path) -> None:
    assert load(tmp_path / "absent") == [{"round": None, "reports": []}] * SIZE


def test_the_newest_is_read_by_all(tmp_path: Path) -> None:
    for round in (5, 10):
        save(tmp_path, round, SIZE)
    for rank, result in enumerate(load(tmp_path)):
        assert result["round"] == 10
        assert result["weights"]["layer1"] == [10.25, 10.25]
        assert result["own"] == [rank, 10]
        assert result["reports"] == []


@pytest.mark.parametrize("mesh", [Mesh(data=2), Mesh(data=1, pipeline=SIZE)])
def test_another_mesh_reads_it_too(tmp_path: Path, mesh: Mesh) -> None:
    save(tmp_path, 5, SIZE)
    for result in load(tmp_path, mesh):
        assert (result["round"], result["own"]) == (5, None)
        assert result["weights"]["layer4"] == [6.0] * 5


def test_damage_that_one_rank_sees_sends_all_to_the_next_older(tmp_path: Path) -> None:
    for round in (5, 10, 15):
        save(tmp_path, round, SIZE)
    save(tmp_path, 20, SIZE, Generation(1, 1))
    flip(tmp_path / "round-00000020.gen-1.1" / "local-00001.safetensors")
    (tmp_path / "round-00000015.gen-1.0" / FILE_NAME).write_text("{")
    results = load(tmp_path)
    assert [(result["name"], result["own"]) for result in results] == [
        ("round-00000010.gen-1.0", [rank, 10]) for rank in range(SIZE)
    ]
    assert [result["reports"] for result in results] == [
        ["round 15: its manifest is torn; using round 10"],
        ["round 20: file local-00001.safetensors has a wrong checksum; using round 10"],
        [],
    ]


def test_damage_in_what_one_rank_needs_sends_all_to_the_next_older(tmp_path: Path) -> None:
    stages = Mesh(data=1, pipeline=2)
    for round in (5, 10):
        parts = [{"model": {f"layer{stage}": torch.tensor([stage, round])}} for stage in range(2)]
        path = save_states(tmp_path, [State(part, {"own": torch.tensor([])}) for part in parts], stages, stages, round)
    flip(path / "replicated-00001.safetensors")
    results = load(tmp_path, MESH, ["model/layer0", "model/layer0", "model/layer1"])
    assert [result["weights"] for result in results] == [{"layer0": [0, 5]}, {"layer0": [0, 5]}, {"layer1": [1, 5]}]
    reports = ["round 10: file replicated-00001.safetensors has a wrong checksum; using round 5"]
    assert [result["reports"] for result in results] == [[], [], reports]


def test_when_all_are_damaged_training_does_not_start_anew(tmp_path: Path) -> None:
    for round in (5, 10):
        flip(save(tmp_path, round, SIZE) / "replicated-00000.safetensors")
    for result in load(tmp_path):
        assert "all 2 checkpoints in" in result["refused"]
        assert "the newest, round-00000010.gen-1.0: file replicated-00000.safetensors has a wrong" in result["refused"]
        assert "empty the directory" in result["refused"]


def test_a_directory_that_can_hold_none_is_never_tried_again(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for result in load(tmp_path / "file" / "checkpoints"):
        assert f"{tmp_path / 'file'} is no directory: remove it" in result["refused"]
