from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtrain.checkpoint.assembly import Wanted, everything
from ringtrain.checkpoint.shard import DamagedFile
from ringtrain.checkpoint.source import VolumeSource
from ringtrain.checkpoint.state import Replicated, State, read_files
from ringtrain.checkpoint.tree import Piece, Unread, flatten, unflatten
from ringtrain.checkpoint.volume import candidates
from ringtrain.contract.mesh import Mesh
from trainer.checkpoint.checkpoints import flip, same, save, save_states, silent, state
from trainer.checkpoint.trees import split, states

meshes = st.builds(Mesh, data=st.integers(1, 3), pipeline=st.integers(1, 4))
PIPELINE = Mesh(data=2, pipeline=2)


def read(root: Path, rank: int, mesh: Mesh, wanted: Wanted = everything) -> State:
    found = candidates(root)[0]
    assert found.manifest is not None
    return read_files(VolumeSource(found.path, found.manifest), rank, mesh, silent, wanted)


def save_parts(root: Path, parts: list[dict[str, Any]], arrangement: Mesh, mesh: Mesh) -> Path:
    """Part n is held by all ranks at place n of their pipeline."""
    ranks = range(arrangement.size)
    own = [State(parts[arrangement.place(rank)[1]], {"rank": torch.tensor(rank)}) for rank in ranks]
    return save_states(root, own, mesh, arrangement)


@settings(max_examples=60, deadline=None)
@given(tree=states, arrangement=meshes, sharded=st.booleans(), reader=meshes, random=st.randoms(use_true_random=False))
def test_any_mesh_reads_what_any_mesh_wrote(
    tmp_path_factory: pytest.TempPathFactory,
    tree: dict[str, Any],
    arrangement: Mesh,
    sharded: bool,
    reader: Mesh,
    random: Random,
) -> None:
    root = tmp_path_factory.mktemp("volume")
    # Ranks of a machine that share out parameters hold parts as well; their mesh is that of data parallelism.
    mesh = Mesh(data=arrangement.size) if sharded else arrangement
    save_parts(root, split(tree, arrangement.pipeline, random), arrangement, mesh)
    for rank in {0, random.randrange(reader.size)}:
        restored = read(root, rank, reader)
        assert same(restored.replicated, tree)
        assert same(restored.local, {"rank": torch.tensor(rank)} if reader == mesh else None)


@settings(max_examples=60, deadline=None)
@given(tree=states, arrangement=meshes, random=st.randoms(use_true_random=False))
def test_parts_of_it_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any], arrangement: Mesh, random: Random
) -> None:
    root = tmp_path_factory.mktemp("volume")
    save_parts(root, split(tree, arrangement.pipeline, random), arrangement, arrangement)
    whole, structure = flatten(tree)
    wanted: dict[str, bool | slice] = {}
    expected: dict[str, Any] = {}
    for path, tensor in whole.items():
        assert isinstance(tensor, torch.Tensor)
        wanted[path] = random.choice([True, False])
        expected[path] = tensor if wanted[path] else Unread(tuple(tensor.shape), tensor.dtype)
        if tensor.dim() and random.random() < 0.5:
            span = slice(*(random.choice([None, random.randint(-1, 6)]) for _ in range(2)))
            wanted[path] = span
            expected[path] = Piece(tensor[span], range(len(tensor))[span].start, len(tensor))
    restored = read(root, 0, Mesh(data=1), wanted.__getitem__)
    assert same(restored.replicated, unflatten(expected, structure))


@pytest.mark.parametrize("world_size", [1, 3, 8])
def test_every_rank_reads_back_all_replicated_state_and_its_own(tmp_path: Path, world_size: int) -> None:
    save(tmp_path, 5, world_size)
    for rank in range(world_size):
        restored = read(tmp_path, rank, Mesh(data=world_size))
        assert same(restored.replicated, state(rank, 5).replicated)
        assert same(restored.local, state(rank, 5).local)


def names(path: Path) -> list[str]:
    return sorted(file.name.removesuffix(".safetensors") for file in path.glob("*.safetensors"))


def test_replicated_state_is_written_once(tmp_path: Path) -> None:
    assert names(save(tmp_path, 5, 3)) == [
        "local-00000",
        "local-00001",
        "local-00002",
        "part-00000",
        "replicated-00000",
        "replicated-00001",
        "replicated-00002",
    ]
    # Five tensors: the last three ranks have none to write.
    assert len([name for name in names(save(tmp_path, 10, 8)) if name.startswith("replicated")]) == 5


def halves() -> list[dict[str, Any]]:
    """Of a model in two stages, each of two tensors."""
    model = {f"{i}.weight": torch.arange(4.0) + i for i in range(4)}
    first, second = dict(list(model.items())[:2]), dict(list(model.items())[2:])
    return [{"round": 5, "model": first}, {"round": 5, "model": second}]


def test_each_stage_is_written_once(tmp_path: Path) -> None:
    path = save_parts(tmp_path, halves(), PIPELINE, PIPELINE)
    assert [name for name in names(path) if not name.startswith("local")] == [
        "part-00000",
        "part-00001",
        "replicated-00000",
        "replicated-00001",
        "replicated-00002",
        "replicated-00003",
    ]


@pytest.mark.parametrize(
    "mesh", [Mesh(data=1), Mesh(data=4), Mesh(data=1, pipeline=4), Mesh(data=2), Mesh(data=4, pipeline=2)]
)
def test_local_state_is_of_the_same_mesh_only(tmp_path: Path, mesh: Mesh) -> None:
    save_parts(tmp_path, halves(), PIPELINE, PIPELINE)
    assert len(read(tmp_path, 0, mesh).replicated["model"]) == 4
    assert read(tmp_path, 0, mesh).local is None
    assert read(tmp_path, 0, PIPELINE).local is not None


@pytest.mark.parametrize("file", ["replicated-00002.safetensors", "local-00001.safetensors"])
def test_damage_is_found_by_those_who_need_the_file(tmp_path: Path, file: str) -> None:
    flip(save(tmp_path, 5, 3) / file)
    with pytest.raises(DamagedFile, match=f"{file} has a wrong checksum"):
        read(tmp_path, 1, Mesh(data=3))
    if file.startswith("local"):
        assert read(tmp_path, 2, Mesh(data=3)).local is not None


def test_files_that_hold_nothing_wanted_are_not_read(tmp_path: Path) -> None:
    # The twins of the second stage are ranks 1 and 3, and write a tensor each.
    path = save_parts(tmp_path, halves(), PIPELINE, PIPELINE)
    flip(path / "replicated-00003.safetensors")
    first = read(tmp_path, 0, PIPELINE, lambda path: path < "model/2")
    assert first.replicated["model"]["1.weight"].tolist() == [1, 2, 3, 4]
    assert first.replicated["model"]["3.weight"] == Unread((4,), torch.float32)
    with pytest.raises(DamagedFile, match=r"replicated-00003\.safetensors has a wrong checksum"):
        read(tmp_path, 1, PIPELINE, lambda path: path >= "model/2")


def test_files_without_a_wanted_row_are_not_read(tmp_path: Path) -> None:
    whole = torch.arange(10.0).reshape(5, 2)
    pieces = [{"w": Piece(whole[:2], 0, 5)}, {"w": Piece(whole[2:], 2, 5)}]
    path = save_parts(tmp_path, pieces, Mesh(data=1, pipeline=2), Mesh(data=2))
    flip(path / "replicated-00001.safetensors")
    assert same(read(tmp_path, 0, Mesh(data=1), lambda _: slice(1, 2)).replicated, {"w": Piece(whole[1:2], 1, 5)})
    with pytest.raises(DamagedFile, match="replicated-00001"):
        read(tmp_path, 0, Mesh(data=1), lambda _: slice(1, 3))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([{"w": torch.zeros(2)}, {"w": torch.tensor([0.0, -0.0])}], "differ at w"),
        ([{"w": torch.zeros(2)}, {"w": torch.zeros(3)}], "tensor w has other shapes"),
        ([{"w": Piece(torch.zeros(2), 0, 5)}, {"w": Piece(torch.zeros(2), 3, 5)}], r"tensor w lacks rows 2\.\.2"),
        ([{"w": Piece(torch.zeros(3), 0, 5)}, {"w": Piece(torch.zeros(3), 2, 5)}], "tensor w has row 2 twice"),
    ],
)
def test_parts_that_make_no_whole_are_damage(tmp_path: Path, parts: list[dict[str, Any]], message: str) -> None:
    arrangement = Mesh(data=1, pipeline=2)
    save_parts(tmp_path, parts, arrangement, arrangement)
    with pytest.raises(DamagedFile, match=message):
        read(tmp_path, 0, arrangement)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"a": torch.zeros(4), "b": torch.zeros(2, 2)}, "tensor b of rank 1 has another shape or dtype"),
        (
            {"a": torch.zeros(4), "b": torch.zeros(4, dtype=torch.int32)},
            "tensor b of rank 1 has another shape or dtype",
        ),
        ({"a": torch.zeros(4), "c": torch.zeros(4)}, "replicated-00001.safetensors"),
    ],
)
def test_holders_that_do_not_hold_the_same_are_damage(
    tmp_path: Path, second: dict[str, torch.Tensor], message: str
) -> None:
    mesh = Mesh(data=2)
    first = {"a": torch.zeros(4), "b": torch.zeros(4)}
    save_states(tmp_path, [State(first, None), State(second, None)], mesh, mesh)
    with pytest.raises(DamagedFile, match=message):
        read(tmp_path, 0, mesh)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("part-00001", r"expected parts of the ranks 0\.\.3, found those of \[0, 2\]"),
        ("replicated-00001", "names no file replicated-00001.safetensors"),
        ("local-00000", "names no file local-00000.safetensors"),
    ],
)
def test_a_file_that_nobody_listed_is_found(tmp_path: Path, missing: str, message: str) -> None:
    save_parts(tmp_path, halves(), PIPELINE, PIPELINE)
    found = candidates(tmp_path)[0]
    assert found.manifest is not None
    files = tuple(file for file in found.manifest.files if not file.path.startswith(missing))
    source = VolumeSource(found.path, found.manifest.model_copy(update={"files": files}))
    with pytest.raises(DamagedFile, match=message):
        read_files(source, 0, PIPELINE, silent)


def test_a_rank_that_is_no_holder_of_its_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rank 2 is none of the holders of its own state, \[0, 1\]"):
        Replicated.of(state(2, 5), [0, 1]).images(2)
