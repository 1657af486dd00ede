"""Runs what a command does with a cluster, and ends it with the right exit status."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from ringtrain_operator.client import CannotAsk, ClientError, TookTooLong, TrainingJobs
from ringtrain_operator.commands import exit_status
from ringtrain_operator.commands.usage import refuse

Result = TypeVar("Result")


def with_jobs(namespace: str | None, context: str | None, work: Callable[[TrainingJobs], Awaitable[Result]]) -> Result:
    """What `work` returns. Raises typer.Exit when it, or the connection, fails: the user was told."""

    async def connected() -> Result:
        async with TrainingJobs.connect(namespace, context) as jobs:
            return await work(jobs)

    return finish(connected)


def finish(work: Callable[[], Awaitable[Result]]) -> Result:
    """The same for what needs no cluster."""

    async def run() -> Result:
        return await work()

    # A display that is drawn in place has to be cleaned up at Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return asyncio.run(run())
    except CannotAsk as error:
        raise refuse(str(error), status=exit_status.UNREACHABLE) from error
    except TookTooLong as error:
        raise refuse(str(error), status=exit_status.FAILED) from error
    except ClientError as error:
        raise refuse(str(error)) from error
    except BrokenPipeError as error:
        raise typer.Exit(exit_status.FAILED) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(exit_status.INTERRUPTED) from error
    finally:
        signal.signal(signal.SIGINT, before)
