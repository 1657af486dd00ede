import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from ringtrain.checkpoint.commands import app
from ringtrain.checkpoint.manifest import FILE_NAME
from ringtrain.checkpoint.tree import Piece
from ringtrain.contract.mesh import Mesh
from trainer.checkpoint.checkpoints import flip
from trainer.checkpoint.written import leave_staged, write, write_parts

NEWEST, OLDER, OLDEST = "round-00000015.gen-1.1", "round-00000010.gen-1.1", "round-00000010.gen-1.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three checkpoints of two generations."""
    root = tmp_path / "gpt" / "checkpoints"
    for name in (OLDEST, OLDER, NEWEST):
        write(root, int(name[6:14]), name[19:])
    return root


def invoke(*arguments: str | Path | int) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(result: Result) -> list[str]:
    """What a command that went well has printed."""
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout.splitlines()


def failed(result: Result, status: int) -> str:
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    assert all(line.startswith("error: ") for line in result.stderr.splitlines())
    return result.stderr


def cut(path: Path) -> None:
    """Of a manifest, only the end of its last line would go by one byte."""
    path.write_bytes(path.read_bytes()[:-2])


def file(name: str) -> Callable[[Path], Path]:
    return lambda checkpoint: checkpoint / f"{name}.safetensors"


DAMAGE: list[tuple[Callable[[Path], Any], str, bool]] = [
    (lambda path: cut(file("local-00001")(path)), r"file local-00001\.safetensors has \d+ bytes, expected \d+", True),
    (lambda path: flip(file("replicated-00000")(path)), r"file replicated-00000\.safetensors has a wrong check", False),
    (lambda path: flip(file("part-00000")(path)), r"file part-00000\.safetensors has a wrong checksum", False),
    (lambda path: file("replicated-00001")(path).unlink(), r"file replicated-00001\.safetensors ", True),
    (lambda path: cut(path / FILE_NAME), "its manifest is torn", True),
    (lambda path: flip(path / FILE_NAME), "its manifest ", True),
    (lambda path: (path / FILE_NAME).unlink(), "it has no manifest", True),
    (lambda path: shutil.copy(path.with_name(OLDEST) / FILE_NAME, path), "its manifest is of another", True),
]
"""(what happens to a checkpoint, what is said of it, whether that is seen without reading the files)"""


def test_ls(root: Path) -> None:
    header, *lines = done(invoke("ls", root))
    assert header.split() == ["NAME", "ROUND", "GENERATION", "MESH", "SIZE", "AGE", "STATE"]
    for line, name in zip(lines, [NEWEST, OLDER, OLDEST], strict=True):
        size = sum(path.stat().st_size for path in (root / name).iterdir())
        assert re.fullmatch(
            rf"{name} +{int(name[6:14])} +{name[19:]} +2x1x1 +{size / 1000:.1f} kB +\d+[sm] +valid", line
        )


def test_ls_in_json(root: Path) -> None:
    cut(root / OLDER / "local-00000.safetensors")
    leave_staged(root, 20, "1.1")
    (root / OLDEST).rename(root / f".removed.{OLDEST}")
    result = invoke("ls", root, "-o", "json")
    done(result)
    listing = json.loads(result.stdout)
    newest, older = listing["checkpoints"]
    assert newest.pop("created").startswith("20")
    assert newest.pop("size") > 1000
    assert newest == {
        "name": NEWEST,
        "round": 15,
        "generation": "1.1",
        "mesh": {"data": 2, "pipeline": 1, "shards": 1},
        "problem": "",
        "valid": True,
    }
    assert (older["name"], older["valid"], older["mesh"], older["created"]) == (OLDER, False, None, None)
    assert "local-00000.safetensors has" in older["problem"]
    assert [leftover["name"] for leftover in listing["leftovers"]] == [
        f".removed.{OLDEST}",
        ".staging.round-00000020.gen-1.1",
    ]
    assert all(leftover["size"] > 1000 for leftover in listing["leftovers"])


def test_ls_tells_of_leftovers(root: Path) -> None:
    leave_staged(root, 20, "1.1")
    assert re.fullmatch(r"\.staging\.round-00000020\.gen-1\.1: not committed, \d\.\d kB", done(invoke("ls", root))[-1])


@pytest.mark.parametrize(("damage", "problem", "seen"), DAMAGE)
def test_damage_is_listed_as_far_as_it_is_seen(
    root: Path, damage: Callable[[Path], Any], problem: str, seen: bool
) -> None:
    damage(root / OLDER)
    lines = done(invoke("ls", root))
    assert len(lines) == 4
    assert (re.search(problem, lines[2]) is not None) == seen
    assert lines[2].endswith(" valid") != seen


@pytest.mark.parametrize(("damage", "problem", "seen"), DAMAGE)
@pytest.mark.parametrize("named", [False, True])
def test_verify_finds_all_damage(
    root: Path, damage: Callable[[Path], Any], problem: str, seen: bool, named: bool
) -> None:
    damage(root / OLDER)
    result = invoke("verify", root, *([OLDER] if named else []))
    assert (result.exit_code, result.stderr) == (1, "")
    (line,) = [line for line in result.stdout.splitlines() if not line.startswith((f"{NEWEST}: v", f"{OLDEST}: v"))]
    assert re.match(rf"{OLDER}: {problem}", line)
    assert len(result.stdout.splitlines()) == (1 if named else 3)


def test_verify_names_every_damaged_file(root: Path) -> None:
    flip(root / OLDER / "local-00000.safetensors")
    cut(root / OLDER / "part-00000.safetensors")
    result = invoke("verify", root, OLDER)
    assert result.exit_code == 1
    assert re.findall(r"file (\S+)", result.stdout) == ["part-00000.safetensors", "local-00000.safetensors"]


def test_verify_in_json(root: Path) -> None:
    cut(root / OLDER / "local-00000.safetensors")
    result = invoke("verify", root, "-o", "json")
    assert (result.exit_code, result.stderr) == (1, "")
    newest, older, oldest = json.loads(result.stdout)
    assert (newest["name"], newest["files"], newest["problems"]) == (NEWEST, 5, [])
    assert older["name"] == OLDER
    assert "local-00000.safetensors has" in older["problems"][0]
    assert oldest["problems"] == []


def test_verify_of_what_is_whole(root: Path) -> None:
    flip(root / OLDER / "local-00000.safetensors")
    size = sum(path.stat().st_size for path in (root / NEWEST).glob("*.safetensors"))
    assert done(invoke("verify", root, NEWEST)) == [f"{NEWEST}: valid, 5 files, {size / 1000:.1f} kB"]


def test_show(root: Path) -> None:
    cut(root / NEWEST / "local-00000.safetensors")
    lines = done(invoke("show", root))
    assert lines[:5] == [
        f"checkpoint  {OLDER}",
        "job         gpt",
        "round       10",
        "generation  1.1",
        "mesh        2x1x1 (data x pipeline x shards), 2 ranks",
    ]
    assert re.fullmatch(r"created     20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d+[sm] ago", lines[5])
    assert re.fullmatch(r"size        \d\.\d kB in 5 files", lines[6])
    assert lines[8:11] == [
        "STATE      TENSORS  VALUES  DTYPES",
        "model      2        15      float32",
        "optimizer  2        13      float32, int64",
    ]
    assert [line.split()[:2] for line in lines[12:]] == [
        ["FILE", "RANK"],
        ["part-00000.safetensors", "0"],
        ["replicated-00000.safetensors", "0"],
        ["local-00000.safetensors", "0"],
        ["replicated-00001.safetensors", "1"],
        ["local-00001.safetensors", "1"],
    ]


def test_show_in_json(root: Path) -> None:
    result = invoke("show", root, OLDEST, "-o", "json")
    done(result)
    shown = json.loads(result.stdout)
    assert shown["name"] == OLDEST
    assert shown["manifest"]["mesh"] == {"data": 2, "pipeline": 1, "shards": 1}
    assert shown["size"] == sum(path.stat().st_size for path in (root / OLDEST).iterdir())
    assert len(shown["manifest"]["files"]) == 5
    assert shown["state"][0] == {"name": "model", "tensors": 2, "values": 15, "dtypes": ["float32"]}


def test_show_counts_every_value_once_however_the_model_is_cut(tmp_path: Path) -> None:
    whole = torch.zeros(5, 2)
    # The table is tied: both parts hold all of it. Of the other each holds some rows.
    parts = [
        {"objects": {"net": {"table": torch.ones(7), "w": piece, "scale": torch.tensor(1.0)}, "loader": {"epoch": 1}}}
        for piece in (Piece(whole[:3], 0, 5), Piece(whole[3:], 3, 5))
    ]
    write_parts(tmp_path, parts, Mesh(data=2, pipeline=2))
    assert "net    3        18      float32" in done(invoke("show", tmp_path))


def test_prune(root: Path) -> None:
    leave_staged(root, 12, "1.1")
    would, *others = done(invoke("prune", root, "--keep", 2, "--dry-run"))
    assert re.fullmatch(rf"would delete {OLDEST}, \d\.\d kB", would)
    assert re.fullmatch(r"would delete \.staging\.round-00000012\.gen-1\.1, \d\.\d kB", others[0])
    assert len(list(root.iterdir())) == 4
    assert [line.split(",")[0] for line in done(invoke("prune", root, "--keep", 2))] == [
        f"deleting {OLDEST}",
        "deleting .staging.round-00000012.gen-1.1",
    ]
    assert sorted(path.name for path in root.iterdir()) == [OLDER, NEWEST]
    assert done(invoke("prune", root, "--keep", 2)) == ["nothing to delete"]


def test_prune_by_multiples(root: Path) -> None:
    write(root, 20, "1.1")
    lines = done(invoke("prune", root, "--keep", 1, "--keep-every", 10))
    assert [line.split(",")[0] for line in lines] == [f"deleting {NEWEST}"]
    assert sorted(path.name for path in root.iterdir()) == [OLDEST, OLDER, "round-00000020.gen-1.1"]


def test_prune_keeps_the_only_valid_one(root: Path) -> None:
    flip(root / NEWEST / FILE_NAME)
    flip(root / OLDER / FILE_NAME)
    assert done(invoke("prune", root, "--keep", 1)) == ["nothing to delete"]
    assert len(list(root.iterdir())) == 3


def test_prune_counts_no_silent_damage(root: Path) -> None:
    flip(root / NEWEST / "replicated-00000.safetensors")
    lines = done(invoke("prune", root, "--keep", 1))
    assert lines[0] == f"{NEWEST} does not count: file replicated-00000.safetensors has a wrong checksum"
    assert [line.split(",")[0] for line in lines[1:]] == [f"deleting {OLDEST}"]
    assert sorted(path.name for path in root.iterdir()) == [OLDER, NEWEST]
    assert done(invoke("prune", root, "--keep", 2))[1:] == ["nothing to delete"]


@pytest.mark.parametrize("options", [["--keep", "0"], [], ["--keep", "2", "--keep-every", "0"], ["--keep", "-1"]])
def test_prune_refuses_numbers_below_one(root: Path, options: list[str]) -> None:
    result = invoke("prune", root, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--keep" in result.stderr
    assert len(list(root.iterdir())) == 3


def test_prune_says_what_could_not_be_deleted(root: Path) -> None:
    (root / f".removed.{OLDEST}").write_text("in the way")
    result = invoke("prune", root, "--keep", 2)
    assert result.exit_code == 1
    assert f"error: could not delete checkpoint {OLDEST}" in result.stderr
    assert (root / OLDEST / FILE_NAME).exists()


COMMANDS = [["ls"], ["verify"], ["show"], ["prune", "--keep", "1"], ["export", "{out}"]]


def command(words: list[str], root: Path, *names: str) -> Result:
    first, *others = [word.format(out=root.parent / "out.safetensors") for word in words]
    return invoke(first, root, *names, *others)


@pytest.mark.parametrize("words", COMMANDS)
def test_directories_that_cannot_be_meant(root: Path, words: list[str]) -> None:
    absent, empty, note = root / "absent", root.parent / "empty", root.parent / "note"
    empty.mkdir()
    note.touch()
    (empty / "lost+found").mkdir()
    assert f"there is no directory {absent}" in failed(command(words, absent), 2)
    assert f"{note} is no directory" in failed(command(words, note), 2)
    assert f"{empty} holds no checkpoints\n" in failed(command(words, empty), 2)
    assert f"{root.parent} holds no checkpoints; these do: {root}\n" in failed(command(words, root.parent), 2)
    assert f"; these do: {root}\n" in failed(command(words, root.parent.parent), 2)
    assert f"{root / OLDER} holds no checkpoints, it is one: name {root}, and perhaps {OLDER}" in failed(
        command(words, root / OLDER), 2
    )
    assert not (root.parent / "out.safetensors").exists()


@pytest.mark.parametrize("words", [["verify"], ["show"], ["export", "{out}"]])
def test_unknown_names_are_answered_with_the_known_ones(root: Path, words: list[str]) -> None:
    error = failed(command(words, root, "round-00000099.gen-1.0"), 2)
    assert f"holds no checkpoint round-00000099.gen-1.0, but {NEWEST}, {OLDER}, {OLDEST}\n" in error
    for round in range(20, 25):
        write(root, round, "1.1")
    assert failed(command(words, root, "../x"), 2).endswith("round-00000020.gen-1.1, ...\n")


@pytest.mark.parametrize("words", [["show"], ["export", "{out}"]])
def test_damaged_ones_are_refused(root: Path, words: list[str]) -> None:
    flip(root / OLDER / "part-00000.safetensors")
    assert f"{OLDER}: file part-00000.safetensors has a wrong checksum" in failed(command(words, root, OLDER), 1)
    for name in (NEWEST, OLDER, OLDEST):
        (root / name / FILE_NAME).unlink()
    assert f"{OLDER}: it has no manifest" in failed(command(words, root, OLDER), 1)
    assert f"no checkpoint in {root} is valid; the newest, {NEWEST}: it has no manifest" in failed(
        command(words, root), 1
    )
    assert not (root.parent / "out.safetensors").exists()


@pytest.mark.parametrize("words", [["verify"], ["show"], ["export", "{out}"]])
def test_saves_without_a_commit_are_no_checkpoints(tmp_path: Path, words: list[str]) -> None:
    root = tmp_path / "checkpoints"
    leave_staged(root, 5, "1.0")
    assert f"{root} holds no committed checkpoint" in failed(command(words, root), 2)
    assert len(done(invoke("ls", root))) == 2
    assert done(invoke("prune", root, "--keep", 1)) == ["nothing to delete"]


IN_PROCESS = """
import sys
from typer.testing import CliRunner
from ringtrain.checkpoint.commands import app
result = CliRunner().invoke(app, sys.argv[2:])
print(result.output)
assert result.exit_code == int(sys.argv[1]), result.output
assert sys.modules.get("torch") is None
"""


@pytest.mark.parametrize("words", [["ls"], ["verify"], ["show"], ["prune", "--keep", "1"]])
def test_looking_takes_no_torch(root: Path, words: list[str]) -> None:
    subprocess.run([sys.executable, "-c", IN_PROCESS, "0", words[0], root, *words[1:]], timeout=120, check=True)


def test_the_extra_that_export_needs_is_named(root: Path) -> None:
    program = "import sys; sys.modules['torch'] = None" + IN_PROCESS
    out = root.parent / "out.safetensors"
    done = subprocess.run(
        [sys.executable, "-c", program, "2", "export", root, out],
        timeout=120,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "export needs the package torch: pip install '.[trainer]'" in done.stdout


def test_the_command_line_offers_them(root: Path) -> None:
    ringtrain = Path(sys.executable).with_name("ringtrain")
    listed = subprocess.run([ringtrain, "checkpoints", "ls", root], capture_output=True, text=True, timeout=120)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["NAME", NEWEST, OLDER, OLDEST]
