"""The newest version that is known of each object of one kind."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from ringtrain_operator.plan.observed import JobKey

Value = TypeVar("Value")

GONE_SECONDS = 120.0
"""An answer to a request may come this much later than the watch tells that its object is gone."""


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Value]):
    key: JobKey
    version: int
    at: float
    value: Value


class Objects(Generic[Value]):
    """By UID, and by the job they belong to. Times are in seconds of any monotonic clock, and come from the caller.

    Versions are compared as numbers: within a kind they grow, whatever wrote them (KEP-5504).
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry[Value]] = {}
        self._of_job: dict[JobKey, dict[str, Value]] = {}
        self._gone: dict[str, float] = {}

    def put(self, key: JobKey, uid: str, version: str, value: Value, at: float) -> bool:
        """It was shown at `at`. Whether that is news: what is older than what is known is not, nor what comes after the
        object's end."""
        before = self._entries.get(uid)
        if uid in self._gone or (before is not None and int(version) < before.version):
            return False
        self._entries[uid] = _Entry(key, int(version), at, value)
        self._of_job.setdefault(key, {})[uid] = value
        return before is None or before.value != value

    def drop(self, uid: str, at: float) -> JobKey | None:
        """The object is gone. The job it belonged to; None when it was not known."""
        self._gone[uid] = at
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        of_job = self._of_job[entry.key]
        del of_job[uid]
        if not of_job:
            del self._of_job[entry.key]
        return entry.key

    def of(self, key: JobKey) -> Collection[Value]:
        return self._of_job.get(key, {}).values()

    def keep(self, uids: Collection[str], asked: float, key: JobKey | None = None) -> set[JobKey]:
        """Drops what a list that was asked for at `asked` does not show, and was last shown before: its end was missed.
        With `key`, only objects of that job were listed. The jobs to which something belonged."""
        known = self._entries if key is None else self._of_job.get(key, {})
        missed = [uid for uid in known if uid not in uids and self._entries[uid].at < asked]
        self._gone = {uid: at for uid, at in self._gone.items() if asked - at < GONE_SECONDS}
        return {found for uid in missed if (found := self.drop(uid, asked)) is not None}
