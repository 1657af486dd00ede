"""`ringtrain checkpoints`: the operator's command line adds it, by its entry point."""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from ringtrain.checkpoint import volume
from ringtrain.checkpoint.contents import Group, contents
from ringtrain.checkpoint.listing import (
    Damaged,
    Unusable,
    Verdict,
    committed,
    directory_size,
    listed,
    named,
    readable,
    verify,
)
from ringtrain.checkpoint.manifest import DamagedManifest, Manifest
from ringtrain.checkpoint.tables import age_text, aligned, size_text
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.model import ContractModel

_DAMAGED, _UNUSABLE = 1, 2
_SUFFIX = ".safetensors"

app = typer.Typer(no_args_is_help=True, help="Look at a job's checkpoints, thin them out, take models out of them.")

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory that holds the checkpoints.", show_default=False)
]
NameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Such as round-00000060.gen-1.0.", show_default=False)
]


class Format(StrEnum):
    """As of `ringtrain status`, whose options the trainer cannot import."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="What is printed.")]


class Shown(ContractModel):
    """A valid checkpoint, for people."""

    name: str
    manifest: Manifest
    size: int
    """Bytes on the volume."""
    state: tuple[Group, ...]


@app.command()
def ls(directory: DirectoryArgument, output: OutputOption = Format.TABLE) -> None:
    """List checkpoints, newest first, and what other saves have left.

    A checkpoint is called valid when its manifest is whole and all files have the right sizes; `verify` reads them.
    Exit status: 0, or 2 when DIR is no checkpoint directory.
    """
    with _told():
        listing = listed(directory)
    if output is Format.JSON:
        typer.echo(listing.model_dump_json(by_alias=True, indent=2))
        return
    now = datetime.now(UTC)
    rows = [
        (
            entry.name,
            str(entry.round),
            entry.generation,
            _mesh(entry.mesh) if entry.mesh is not None else "-",
            size_text(entry.size),
            age_text(now - entry.created) if entry.created is not None else "-",
            entry.problem or "valid",
        )
        for entry in listing.checkpoints
    ]
    header, *lines = aligned([("NAME", "ROUND", "GENERATION", "MESH", "SIZE", "AGE", "STATE"), *rows])
    _print(header, "bold")
    for entry, line in zip(listing.checkpoints, lines, strict=True):
        _print(line, "red" if entry.problem else None)
    for leftover in listing.leftovers:
        _print(f"{leftover.name}: not committed, {size_text(leftover.size)}", "dim")


@app.command(name="verify")
def verify_command(
    directory: DirectoryArgument, name: NameArgument = None, output: OutputOption = Format.TABLE
) -> None:
    """Read all files of a checkpoint, or of all checkpoints, and compare them with their manifest.

    Exit status: 0 all are valid, 1 one is damaged, 2 there is none of that name, or none at all.
    """
    with _told():
        chosen = [named(directory, name)] if name is not None else committed(directory)
        if not chosen:
            raise Unusable(f"{directory} holds no committed checkpoint")
    verdicts = []
    for candidate in chosen:
        verdict = verify(directory, candidate.name)
        if verdict.problems and not candidate.path.exists():
            typer.echo(f"{verdict.name}: deleted while it was read", err=True)
            continue
        verdicts.append(verdict)
        if output is Format.TABLE:
            _tell(verdict)
    if output is Format.JSON:
        typer.echo(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    if any(verdict.problems for verdict in verdicts):
        raise typer.Exit(_DAMAGED)


@app.command()
def show(directory: DirectoryArgument, name: NameArgument = None, output: OutputOption = Format.TABLE) -> None:
    """Say what a checkpoint holds: one, or the newest valid one.

    Exit status: 0, 1 it is damaged, 2 there is none of that name.
    """
    with _told():
        found = readable(directory, name)
        manifest = volume.read_manifest(directory, found.name)
        shown = Shown(
            name=str(found.name),
            manifest=manifest,
            size=directory_size(found.path),
            state=contents(found.path, manifest),
        )
    if output is Format.JSON:
        typer.echo(shown.model_dump_json(by_alias=True, indent=2))
    else:
        _show(shown)


@app.command()
def prune(
    directory: DirectoryArgument,
    keep: Annotated[int, typer.Option(min=1, help="How many valid checkpoints stay, from the newest.")],
    keep_every: Annotated[
        int | None, typer.Option(min=1, help="Those whose round is a multiple of it stay too.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing, say what would be.")] = False,
) -> None:
    """Delete old checkpoints, and what older saves have left, as a job does after a commit.

    Those that stay are read first: damaged ones do not count. The newest valid checkpoint always stays, and all of them
    as long as there are no more than are to be kept. Exit status: 0, 1 when something could not be deleted, 2 when DIR
    is no checkpoint directory.
    """
    with _told():
        committed(directory)
        expendable = volume.expendable(directory, keep, keep_every, lambda found: _counts(directory, found))
        paths = [directory / name for name in (*map(str, expendable.checkpoints), *expendable.leftovers)]
        sizes = {path: directory_size(path) for path in paths}
        for path, size in sizes.items():
            _print(f"{'would delete' if dry_run else 'deleting'} {path.name}, {size_text(size)}")
        problems = [] if dry_run else volume.delete(directory, expendable)
        if problems:
            raise Damaged("\n".join(problems))
        if not sizes:
            _print("nothing to delete")


@app.command()
def export(
    directory: DirectoryArgument,
    name: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="By default the newest valid one.", show_default=False),
    ] = None,
    *,
    out: Annotated[Path, typer.Argument(metavar="OUT", help=f"File to write: *{_SUFFIX}.", show_default=False)],
    chosen: Annotated[
        str | None,
        typer.Option(
            "--object",
            help="Of several models that training code of your own has saved, the one to take.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
) -> None:
    """Write the model's tensors alone into one safetensors file, which plain PyTorch and Transformers load.

    Exit status: 0, 1 the checkpoint is damaged or OUT cannot be written, 2 something that was named is not there.
    """
    # The command line ends at once at Ctrl-C, and would leave half a file.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with _told():
        if len(name or ()) > 1:
            raise Unusable(f"one NAME is expected between DIR and OUT, not {' '.join(name or ())}")
        _check_out(out, force)
        found = readable(directory, name[0] if name else None)
        manifest = volume.read_manifest(directory, found.name)
        try:
            from ringtrain.checkpoint.export import read_model, write
        except ModuleNotFoundError as error:
            raise Unusable(
                f"export needs the package {error.name}: pip install '.[trainer]' in Ringtrain's checkout"
            ) from error
        model = read_model(found.path, manifest, chosen)
        write(model, out)
    values = sum(tensor.numel() for tensor in model.values())
    _print(f"{out}: {_counted(len(model), 'tensor')}, {values:,} values, of {found.name}")


def _tell(verdict: Verdict) -> None:
    if not verdict.problems:
        _print(f"{verdict.name}: valid, {_counted(verdict.files, 'file')}, {size_text(verdict.size)}")
    for problem in verdict.problems:
        _print(f"{verdict.name}: {problem}", "red")


def _counts(directory: Path, found: volume.Candidate) -> bool:
    problems = verify(directory, found.name).problems
    for problem in problems:
        _print(f"{found.name} does not count: {problem}", "red")
    return not problems


def _check_out(out: Path, force: bool) -> None:
    if out.suffix != _SUFFIX:
        raise Unusable(f"OUT is {out}: name a file that ends with {_SUFFIX}")
    if not out.parent.is_dir():
        raise Unusable(f"there is no directory {out.parent}")
    if out.is_dir():
        raise Unusable(f"{out} is a directory")
    if out.exists() and not force:
        raise Unusable(f"{out} is there already: name another file, or overwrite it by --force")


@contextmanager
def _told() -> Iterator[None]:
    """Tells people what is wrong, and ends the command."""
    try:
        yield
    except Unusable as error:
        _end(error, _UNUSABLE)
    except (Damaged, DamagedManifest, OSError) as error:
        _end(error, _DAMAGED)


def _end(error: Exception, status: int) -> NoReturn:
    for line in str(error).splitlines():
        typer.echo(f"error: {line}", err=True)
    raise typer.Exit(status) from error


def _show(shown: Shown) -> None:
    manifest = shown.manifest
    age = age_text(datetime.now(UTC) - manifest.created)
    mesh = manifest.mesh
    pairs = [
        ("checkpoint", shown.name),
        ("job", manifest.job),
        ("round", str(manifest.round)),
        ("generation", manifest.generation),
        ("mesh", f"{_mesh(mesh)} (data x pipeline x shards), {_counted(mesh.size, 'rank')}"),
        ("created", f"{manifest.created.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC, {age} ago"),
        ("size", f"{size_text(shown.size)} in {_counted(len(manifest.files), 'file')}"),
    ]
    state = [(group.name, str(group.tensors), f"{group.values:,}", ", ".join(group.dtypes)) for group in shown.state]
    files = [(file.path, str(file.rank), size_text(file.size)) for file in manifest.files]
    _print_all(aligned(pairs))
    _print_all(["", *aligned([("STATE", "TENSORS", "VALUES", "DTYPES"), *state])])
    _print_all(["", *aligned([("FILE", "RANK", "SIZE"), *files])])


def _mesh(mesh: Mesh) -> str:
    return f"{mesh.data}x{mesh.pipeline}x{mesh.shards}"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def _print_all(lines: Sequence[str]) -> None:
    for line in lines:
        _print(line)


def _print(line: str, style: str | None = None) -> None:
    console = Console(file=sys.stdout, highlight=False)
    console.print(line, style=style, markup=False, soft_wrap=True)
