"""`ringtrain init` and `validate`: job files."""

import shlex
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from ringtrain_operator.api.rules import name_problems
from ringtrain_operator.commands.options import Format, OutputOption
from ringtrain_operator.commands.show import Screen
from ringtrain_operator.commands.starter import starter
from ringtrain_operator.commands.usage import UsageError, read_job, refuse


class Device(StrEnum):
    CUDA = "cuda"
    CPU = "cpu"


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.", show_default=False)],
    replicas: Annotated[int, typer.Option(min=1, max=9999, help="Pods; each stands for one machine.")] = 2,
    device: Annotated[Device, typer.Option(help="What ranks compute on.")] = Device.CUDA,
    image: Annotated[
        str | None,
        typer.Option(help="Image of the replicas; by default the trainer of this version.", show_default=False),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            help="Your training program, such as 'python train.py'; by default the built-in trainer.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="File to write; by default standard output.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a TrainingJob to begin with, in which every field there is stands as a comment."""
    problems = tuple(name_problems(name))
    if problems:
        raise refuse(*map(str, problems))
    text = starter(name, _first_spec(replicas, device, image or f"ringtrain-trainer:{version('ringtrain')}", command))
    if file is None:
        Screen().text(text)
        return
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise refuse(f"{file} is there already: name another file, or overwrite it by --force") from error
    except OSError as error:
        raise refuse(f"{file} cannot be written: {error.strerror}") from error
    typer.echo(f"{file}: try it by `ringtrain validate {file}`")


def _first_spec(replicas: int, device: Device, image: str, command: str | None) -> dict[str, Any]:
    return {
        "image": image,
        "replicas": replicas,
        "device": device.value,
        **_program(command),
        "checkpoint": {"volume": {"claimTemplate": {"storage": "10Gi"}}},
    }


def _program(command: str | None) -> dict[str, Any]:
    if command is not None:
        return {"command": shlex.split(command)}
    return {"trainer": {"rounds": 300, "model": {"size": "tiny"}, "data": {"paths": ["{stdlib}/*.py"]}}}


def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="YAML files with one TrainingJob each.", show_default=False)
    ],
    output: OutputOption = Format.TABLE,
) -> None:
    """Check TrainingJob files and say all that is wrong with them.

    By the rules of the CRD and those of the operator, without a cluster. Exit status: 0 all are valid, 2 one is not.
    """
    found = {file: _problems(file) for file in files}
    if output is Format.JSON:
        Screen().json([{"file": str(file), "problems": problems} for file, problems in found.items()])
    for file, problems in found.items() if output is Format.TABLE else ():
        if not problems:
            typer.echo(f"{file}: valid")
    wrong = [problem for problems in found.values() for problem in problems]
    if wrong:
        raise refuse(*wrong)


def _problems(file: Path) -> list[str]:
    try:
        read_job(file)
    except UsageError as error:
        return list(error.lines)
    return []
