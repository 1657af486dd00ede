"""Claims that hold checkpoints: the operator's own are watched, those of users are asked for."""

from collections.abc import Callable

from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.cluster.cache import Cache
from ringtrain_operator.cluster.kinds import Kind, path
from ringtrain_operator.plan.names import claim_name
from ringtrain_operator.plan.observed import Job

_SECONDS = 60.0
"""One that was there is not asked for again for so long."""


class Claims:
    def __init__(self, api: KubernetesApi, cache: Cache, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._api = api
        self._cache = cache
        self._clock = clock
        self._seen: dict[str, float] = {}
        """When those of users last were there, by path."""

    async def has(self, job: Job, claim: str) -> bool:
        """Raises ApiError."""
        own = claim_name(job.key.name)
        if claim == own:
            return self._cache.has(job, Kind.CLAIMS, own)
        wanted = path(Kind.CLAIMS, job.key.namespace, claim)
        if self._clock() - self._seen.get(wanted, float("-inf")) > _SECONDS:
            if await self._api.get(wanted) is None:
                return False
            self._seen[wanted] = self._clock()
        return True

    def forget_old(self) -> None:
        now = self._clock()
        self._seen = {claim: at for claim, at in self._seen.items() if now - at < _SECONDS}
