import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn
from typer.testing import CliRunner, Result

from ringtrain.api.saved import Saved
from ringtrain.checkpoint.commands import app
from ringtrain.checkpoint.tree import Piece
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.models import build_model
from trainer.checkpoint.checkpoints import flip, same
from trainer.checkpoint.written import tree, write, write_parts

OUT = "model.safetensors"


def export(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["export", str(root), *arguments])


def exported(root: Path, *arguments: str) -> dict[str, torch.Tensor]:
    """What plain PyTorch reads."""
    out = root.parent / OUT
    result = export(root, *arguments, str(out))
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    with safe_open(out, framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
    assert names(root.parent) == [root.name, OUT]
    return load_file(out)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(result: Result, status: int = 2) -> str:
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    return result.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def objects(**models: nn.Module) -> dict[str, Any]:
    """Training code's own, with an optimizer."""
    model = next(iter(models.values()))
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return {"round": 5, "loss": 0.5, "objects": Saved({**models, "optimizer": optimizer}).tree()}


def test_the_newest_valid_one_is_taken(root: Path) -> None:
    for round in (5, 10, 15):
        write(root, round)
    (root / "round-00000015.gen-1.0" / "local-00000.safetensors").unlink()
    assert same(exported(root), tree(10)["model"])


def test_a_name_chooses(root: Path) -> None:
    for round in (5, 10):
        write(root, round)
    assert same(exported(root, "round-00000005.gen-1.0"), tree(5)["model"])


def test_what_is_said(root: Path) -> None:
    write(root, 5)
    out = root.parent / OUT
    assert export(root, str(out)).stdout == f"{out}: 2 tensors, 15 values, of round-00000005.gen-1.0\n"
    (root.parent / "other").touch()
    assert out.stat().st_mode == (root.parent / "other").stat().st_mode


def test_a_built_in_model_loads(root: Path) -> None:
    config = ModelConfig.model_validate({"kind": "gpt", "size": "tiny", "contextLength": 16})
    model = build_model(config, 256, seed=3)
    write(root, 5, content={"round": 5, "model": dict(model.state_dict()), "optimizer": {}})
    other = build_model(config, 256, seed=4)
    assert not same(dict(other.state_dict()), dict(model.state_dict()))
    other.load_state_dict(exported(root))
    assert same(dict(other.state_dict()), dict(model.state_dict()))


@pytest.mark.parametrize("mesh", [Mesh(data=1), Mesh(data=4), Mesh(data=2, pipeline=2), Mesh(data=4, shards=2)])
def test_however_the_model_was_cut(root: Path, mesh: Mesh) -> None:
    whole = {"a": torch.arange(12.0).reshape(6, 2), "b": torch.ones(3, dtype=torch.bfloat16), "c": torch.tensor(7)}
    rows = 6 // mesh.parts
    parts = [
        {"round": 5, "model": {**whole, "a": Piece(whole["a"][start : start + rows], start, 6)}}
        for start in range(0, 6, rows)
    ]
    write_parts(root, parts, mesh)
    assert same(exported(root), whole)


def test_training_code_of_ones_own(root: Path) -> None:
    # Batch normalisation has buffers, which belong to the model.
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    write(root, 5, content=objects(net=model))
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other.load_state_dict(exported(root))
    assert same(dict(other.state_dict()), dict(model.state_dict()))


def test_one_of_several_models_is_chosen(root: Path) -> None:
    first, second = nn.Linear(2, 2), nn.Linear(3, 3)
    write(root, 5, content=objects(student=first, teacher=second))
    error = refused(export(root, str(root.parent / OUT)))
    assert "round-00000005.gen-1.0: it holds several models: choose one of student, teacher by --object" in error
    assert same(exported(root, "--object", "teacher"), dict(second.state_dict()))


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("optimizer", "object optimizer is no model, which is a flat dict of tensors: its models are net"),
        ("other", "object other is not in it: its models are net"),
    ],
)
def test_only_a_model_can_be_chosen(root: Path, chosen: str, message: str) -> None:
    write(root, 5, content=objects(net=nn.Linear(2, 2)))
    assert message in refused(export(root, str(root.parent / OUT), "--object", chosen))


def test_states_without_a_model(root: Path) -> None:
    write(root, 5, content={"round": 5, "objects": {"loader": {"epoch": 1}}})
    assert "holds no model: no object of it is a flat dict" in refused(export(root, str(root.parent / OUT)))
    write(root, 10, content={"round": 10})
    assert "holds no model" in refused(export(root, str(root.parent / OUT)))
    write(root, 15)
    error = refused(export(root, str(root.parent / OUT), "--object", "net"))
    assert "saved by the built-in trainer, which has one model: leave --object out" in error


def test_transformers_take_their_names(root: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: run make setup")
    config = transformers.GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    # Its head is tied to its embedding.
    write(root, 5, content=objects(model=model))
    folder = root.parent
    tensors = exported(root)
    transformers.GPT2LMHeadModel(config).load_state_dict(tensors)
    config.save_pretrained(folder)
    loaded = transformers.GPT2LMHeadModel.from_pretrained(folder)
    assert same(dict(loaded.state_dict()), dict(model.state_dict()))


def test_nothing_is_overwritten_without_force(root: Path) -> None:
    write(root, 5)
    out = root.parent / OUT
    out.write_text("precious")
    assert f"{out} is there already: name another file, or overwrite it by --force" in refused(export(root, str(out)))
    assert out.read_text() == "precious"
    assert same(exported(root, "--force"), tree(5)["model"])


def test_only_the_model_needs_to_be_whole(root: Path) -> None:
    path = write(root, 5)
    flip(path / "local-00000.safetensors")
    assert same(exported(root), tree(5)["model"])


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_damage_leaves_nothing_behind(root: Path, force: list[str]) -> None:
    path, out = write(root, 5), root.parent / OUT
    if force:
        out.write_text("precious")
    for file in path.glob("replicated-*"):
        flip(file)
    error = refused(export(root, str(out), *force), 1)
    assert "round-00000005.gen-1.0: file replicated-00000.safetensors has a wrong checksum" in error
    assert names(root.parent) == [root.name, *([OUT] if force else [])]
    assert not force or out.read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["round-00000005.gen-1.0"], "OUT is round-00000005.gen-1.0: name a file that ends with .safetensors"),
        (["{absent}/m.safetensors"], "there is no directory {absent}"),
        (["{folder}"], "{folder} is a directory"),
        (["a", "b", "{out}"], "one NAME is expected between DIR and OUT, not a b"),
    ],
)
def test_what_cannot_be_written(root: Path, arguments: list[str], message: str) -> None:
    write(root, 5)
    folder = root.parent / "folder.safetensors"
    folder.mkdir()
    places = {"absent": root.parent / "absent", "folder": folder, "out": root.parent / OUT}
    assert message.format(**places) in refused(export(root, *(word.format(**places) for word in arguments)))


def test_a_file_that_cannot_be_written_to_its_end(root: Path) -> None:
    write(root, 5, content={"model": {"big": torch.zeros(1 << 18)}})
    out = root.parent / OUT
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        error = refused(export(root, str(out)), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"error: {out} cannot be written: " in error
    assert "File too large" in error
    assert names(root.parent) == [root.name]


# Ctrl-C once the file is written, and is not yet in its place.
INTERRUPTED = """
import os, signal, sys
def interrupt(event, arguments):
    if event == "os.chmod":
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
from ringtrain_operator.cli import main
main()
"""


def test_an_interrupt_leaves_nothing_behind(root: Path) -> None:
    write(root, 5)
    words = [sys.executable, "-c", INTERRUPTED, "checkpoints", "export", str(root), str(root.parent / OUT)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (128 + signal.SIGINT, "")
    assert "Traceback" not in done.stderr
    assert names(root.parent) == [root.name]
