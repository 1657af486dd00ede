"""All commands, and those that packages bring."""

from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from ringtrain_operator.advisor.advise import advise_command
from ringtrain_operator.commands import change, doctor, files, logs, observe, run

_HERE = "On this machine"
_JOBS = "Jobs"
_LOOK = "What jobs do"
_CLUSTER = "Clusters"

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ringtrain {version('ringtrain')}")
        raise typer.Exit


@app.callback()
def _root(
    show: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Fault-tolerant distributed training of PyTorch models: TrainingJobs on this machine and on Kubernetes.

    Exit status: 0, 1 it failed, 2 it cannot be done as it was asked for, 3 the cluster cannot be asked, 130 it was
    interrupted.
    """


for _panel, _commands in {
    _HERE: (files.init, files.validate, run.run),
    _JOBS: (change.submit, change.suspend, change.resume, change.restart, change.delete),
    _LOOK: (observe.status, observe.top, logs.logs, observe.events),
    _CLUSTER: (doctor.doctor,),
}.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.command(name="advise", rich_help_panel=_HERE)(advise_command)

# Typer apps of what the operator must not import, such as the trainer's `ringtrain checkpoints`.
for _point in entry_points(group="ringtrain.commands"):
    app.add_typer(_point.load(), name=_point.name)
