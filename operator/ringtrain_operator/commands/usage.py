"""What the commands share: reading a job file, and telling the user what is wrong."""

from pathlib import Path

import typer

from ringtrain_operator.api.metadata import metadata_problems
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.validation import InvalidSpec, parse
from ringtrain_operator.commands import exit_status
from ringtrain_operator.local.job_file import ANY_IMAGE, BadJobFile, JobFile, read_job_file


class UsageError(Exception):
    """Told to the user, one line each; the exit status is 2."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def refuse(*lines: str, status: int = exit_status.REFUSED) -> typer.Exit:
    """Tells the user; raise what it returns."""
    for line in lines:
        typer.echo(f"error: {line}", err=True)
    return typer.Exit(status)


def read_job(file: Path) -> tuple[JobFile, TrainingJobSpec]:
    """Raises UsageError with all that is wrong with it."""
    try:
        job = read_job_file(file)
    except BadJobFile as error:
        raise UsageError(str(error)) from error
    problems, spec = list(metadata_problems(job.metadata)), None
    try:
        spec = parse(job.name, {**ANY_IMAGE, **job.spec})
    except InvalidSpec as error:
        problems += error.problems
    if problems or spec is None:
        raise UsageError(*(f"{file}: {problem}" for problem in problems))
    return job, spec
