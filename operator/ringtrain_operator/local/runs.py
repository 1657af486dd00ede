"""Runs of this machine as seen from outside: what `ringtrain run` has left in its directories, or writes now."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

from ringtrain_operator.client import LogLine, NoSuchJob, Refused, TrainingJob

_LOOK_SECONDS = 0.5


class LocalRuns:
    """Of one folder of run directories. All methods raise ClientError."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def get(self, name: str) -> TrainingJob:
        path = self._directory / name / "status.json"
        try:
            return TrainingJob.of(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise NoSuchJob(
                f"there is no run of {name} in {self._directory}: `ringtrain status --local` lists them; --directory "
                "names another folder"
            ) from None
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{path} does not hold the status of a job") from error

    async def list(self, *, all_namespaces: bool = False) -> tuple[TrainingJob, ...]:  # noqa: ARG002 - all are here
        """By name."""
        names = sorted(path.parent.name for path in self._directory.glob("*/status.json"))
        return tuple([await self.get(name) for name in names])

    async def logs(
        self,
        name: str,
        *,
        replica: int | None = None,
        rank: int | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> AsyncGenerator[LogLine, None]:
        """By replica and epoch. With `follow`, lines as they come until the job is over; a run that was interrupted is
        not over. `tail`: of each pod, only so many of the last lines."""
        await self.get(name)
        if rank is not None:
            raise Refused(
                "a run directory does not tell which replica holds a rank: name it by --replica; its lines name their "
                "ranks, where it has several"
            )
        readings: dict[Path, _Reading] = {}
        while True:
            # Asked before reading, so that all that was written before the end is read.
            over = not follow or (await self.get(name)).is_over
            for path in self._logs(name, replica):
                reading = readings.setdefault(path, _Reading(path, tail))
                for text in reading.news(final=over):
                    yield LogLine(reading.replica, path.parent.name, None, text).told_apart()
            if over:
                return
            tail = None
            await asyncio.sleep(_LOOK_SECONDS)

    def _logs(self, name: str, replica: int | None) -> tuple[Path, ...]:
        found = {path: _numbers(path.parent.name) for path in (self._directory / name / "pods").glob("*/log")}
        chosen = [path for path, numbers in found.items() if replica in (None, numbers[0])]
        return tuple(sorted(chosen, key=found.__getitem__))


class _Reading:
    """How far one pod's log is read."""

    def __init__(self, path: Path, tail: int | None) -> None:
        self.replica = _numbers(path.parent.name)[0]
        self._path = path
        self._tail = tail
        self._offset = 0

    def news(self, *, final: bool) -> list[str]:
        """Lines that were written since; one without an end only when it is `final`. Raises Refused."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError as error:
            raise Refused(f"{self._path} cannot be read: {error.strerror}") from error
        if not final:
            data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        lines = data.decode(errors="replace").splitlines()
        tail, self._tail = self._tail, None
        return lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]


def _numbers(pod: str) -> tuple[int, int]:
    """Replica and epoch, of JOB-REPLICA-EPOCH."""
    _, replica, epoch = pod.rsplit("-", 2)
    return int(replica), int(epoch)
