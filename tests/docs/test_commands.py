"""What the documentation tells people to type can be typed."""

import ast
import importlib.util
import os
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ringtrain_operator.commands.app import app
from ringtrain_operator.commands.starter import starter
from support.documented import ROOT, Command, shown
from trainer.checkpoint.checkpoints import flip
from trainer.checkpoint.written import write

LOCAL = ("advise", "checkpoints", "init", "validate")
"""Those that take no more than a moment, and no cluster."""
REMOTE = ("delete", "doctor", "events", "logs", "restart", "resume", "status", "submit", "suspend", "top")
RUN = [command for command in shown("ringtrain", inline=False) if command.arguments[0] in LOCAL]
SPEC = {"image": "trainer:1", "trainer": {"rounds": 10, "data": {"paths": ["*.txt"]}}}


def test_there_are_commands() -> None:
    assert len(shown("ringtrain", inline=False)) > 20
    assert len(shown("kubectl", "helm", inline=False)) > 20


@pytest.mark.parametrize("command", shown("ringtrain"), ids=str)
def test_ringtrain_knows_the_options(command: Command) -> None:
    words = command.arguments
    options = [place for place, word in enumerate(words) if word.startswith("-")] or [len(words)]
    # Help is shown once all words were understood, and before any of them has an effect.
    helped = CliRunner().invoke(app, [*words[: options[0]], "--help", *words[options[0] :]])
    assert helped.exit_code == 0, helped.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader stands: with a job, and the checkpoints that docs/checkpoints.md looks at."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "job.yaml").write_text(starter("gpt", SPEC))
    checkpoints = tmp_path / ".ringtrain" / "gpt-text" / "checkpoints"
    for round in (10, 15, 20):
        write(checkpoints, round, "0.0")
    flip(checkpoints / "round-00000015.gen-0.0" / "replicated-00001.safetensors")
    cut = checkpoints / "round-00000020.gen-0.0" / "local-00001.safetensors"
    cut.write_bytes(cut.read_bytes()[:-1])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page", sorted({command.page for command in RUN}), ids=lambda page: str(page.relative_to(ROOT))
)
def test_local_commands_of_a_page_run_one_after_another(page: Path, folder: Path) -> None:
    for command in (each for each in RUN if each.page == page):
        done = CliRunner().invoke(app, list(command.arguments))
        damaged = command.arguments[:2] == ("checkpoints", "verify")
        assert done.exit_code == (1 if damaged else 0), f"{command}\n{done.output}"


@pytest.mark.parametrize(
    "command",
    [command for command in shown("ringtrain", inline=False)
     if command.arguments[0] in REMOTE and "--local" not in command.arguments],
    ids=str,
)  # fmt: skip
def test_cluster_commands_get_as_far_as_asking_a_cluster(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "kubeconfig").write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}"
    )
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    asked = CliRunner().invoke(app, list(command.arguments))
    assert asked.exit_code == 3, asked.output


@pytest.mark.parametrize("command", shown("python"), ids=str)
def test_python_finds_program_and_options(command: Command) -> None:
    program, *words = command.arguments
    if program == "-m":
        assert importlib.util.find_spec(words[0]) is not None
        return
    strings = {
        node.value for node in ast.walk(ast.parse((ROOT / program).read_text())) if isinstance(node, ast.Constant)
    }
    assert {word for word in words if word.startswith("--")} <= strings


@pytest.mark.parametrize("command", shown("make"), ids=str)
def test_make_has_the_target(command: Command) -> None:
    (target,) = command.arguments
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", shown("pytest"), ids=str)
def test_pytest_finds_the_tests(command: Command) -> None:
    path, *_ = command.arguments
    assert (ROOT / path).exists()


@pytest.mark.parametrize("command", shown("docker", inline=False), ids=str)
def test_docker_finds_the_target(command: Command) -> None:
    if command.arguments[0] == "build":
        target = command.arguments[command.arguments.index("--target") + 1]
        assert re.search(rf"^FROM \S+ AS {target}$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", shown("pip"), ids=str)
def test_pip_finds_the_extra(command: Command) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, extra in re.findall(r"(\S+)\[(\w+)\]", " ".join(command.arguments)):
        assert name == ".", "no index has it: it is installed from its checkout"
        assert extra in project["optional-dependencies"]


@pytest.mark.parametrize("command", shown("testbed"), ids=str)
def test_testbed_has_the_command(command: Command) -> None:
    script = ROOT / command.words[0]
    assert os.access(script, os.X_OK)
    if script.name == "cluster":
        assert f"#   cluster {command.words[1]}" in script.read_text()
