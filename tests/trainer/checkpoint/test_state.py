from pathlib import Path

import pytest
import torch

from ringtrain.checkpoint.shard import DamagedFile
from ringtrain.checkpoint.state import State, read_files, remove_files, write_files
from ringtrain.checkpoint.volume import candidates, staging
from trainer.checkpoint.checkpoints import GENERATION, flip, save, silent, state


def read(root: Path, rank: int, world_size: int) -> State:
    found = candidates(root)[0]
    assert found.manifest is not None
    return read_files(found.path, found.manifest, rank, world_size, silent)


@pytest.mark.parametrize("world_size", [1, 3, 8])
def test_every_rank_reads_back_all_replicated_state_and_its_own(tmp_path: Path, world_size: int) -> None:
    save(tmp_path, 5, world_size)
    for rank in range(world_size):
        restored, expected = read(tmp_path, rank, world_size), state(rank, 5)
        assert restored.replicated["round"] == 5
        assert restored.replicated["model"].keys() == expected.replicated["model"].keys()
        for name, tensor in expected.replicated["model"].items():
            assert restored.replicated["model"][name].dtype == torch.bfloat16
            assert torch.equal(restored.replicated["model"][name], tensor)
        assert restored.local is not None
        assert restored.local["own"].tolist() == [rank, 5]


def test_replicated_state_is_written_once(tmp_path: Path) -> None:
    path = save(tmp_path, 5, 3)
    assert sorted(file.name for file in path.glob("*.safetensors")) == [
        "local-00000.safetensors",
        "local-00001.safetensors",
        "local-00002.safetensors",
        "replicated-00000.safetensors",
        "replicated-00001.safetensors",
        "replicated-00002.safetensors",
    ]
    save(tmp_path, 10, 8)
    # Five tensors: the last three ranks have none to write.
    assert len(list((tmp_path / "round-00000010.gen-1.0").glob("replicated-*"))) == 5


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_another_world_size_reads_the_replicated_state_only(tmp_path: Path, world_size: int) -> None:
    save(tmp_path, 5, 3)
    restored = read(tmp_path, world_size - 1, world_size)
    assert len(restored.replicated["model"]) == 5
    assert restored.local is None


@pytest.mark.parametrize("file", ["replicated-00002.safetensors", "local-00001.safetensors"])
def test_damage_is_found_by_those_who_need_the_file(tmp_path: Path, file: str) -> None:
    flip(save(tmp_path, 5, 3) / file)
    with pytest.raises(DamagedFile, match=f"{file} has a wrong checksum"):
        read(tmp_path, 1, 3)
    if file.startswith("local"):
        assert read(tmp_path, 2, 3).local is not None


def test_a_part_that_nobody_listed_is_found(tmp_path: Path) -> None:
    save(tmp_path, 5, 3)
    found = candidates(tmp_path)[0]
    assert found.manifest is not None
    files = tuple(file for file in found.manifest.files if file.path != "replicated-00001.safetensors")
    manifest = found.manifest.model_copy(update={"files": files})
    with pytest.raises(DamagedFile, match="do not fit together"):
        read_files(found.path, manifest, 0, 3, silent)
    files = tuple(file for file in found.manifest.files if not file.path.startswith("local"))
    with pytest.raises(DamagedFile, match="no local state of rank 0"):
        read_files(found.path, found.manifest.model_copy(update={"files": files}), 0, 3, silent)


def test_files_of_a_given_up_checkpoint_are_removed(tmp_path: Path) -> None:
    directory = staging(tmp_path, GENERATION, 5)
    for rank in range(2):
        write_files(directory, state(rank, 5), rank, 2, silent)
    remove_files(directory, 0)
    assert sorted(path.name for path in directory.iterdir()) == [
        "local-00001.safetensors",
        "replicated-00001.safetensors",
    ]
    remove_files(directory, 1)
    assert not directory.exists()
    remove_files(directory, 1)
