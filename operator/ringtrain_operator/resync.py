"""The resync loop: every job gets a pass now and then, whatever the watches deliver."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ringtrain_operator.cluster.api import ApiError, Json, KubernetesApi
from ringtrain_operator.cluster.kinds import RESOURCES, Kind, path
from ringtrain_operator.feed import Feed

WAIT_FOR_CRD_SECONDS = 2.0

_logger = logging.getLogger(__name__)


class Resync:
    """Lists all that is watched; only metadata is read."""

    def __init__(
        self,
        api: KubernetesApi,
        kinds: Sequence[Kind],
        namespaces: Sequence[str],
        feed: Feed,
        clock: Callable[[], float],
    ) -> None:
        """No `namespaces`: all."""
        self._api = api
        self._kinds = kinds
        self._namespaces = list(namespaces) or [""]
        self._feed = feed
        self._clock = clock

    async def until_served(self) -> None:
        """Waits until the API server knows TrainingJobs, and lets us list them."""
        said = ""
        while True:
            try:
                await self._list(Kind.JOBS)
                return
            except ApiError as error:
                if said != (said := str(error)):
                    _logger.warning("waiting for TrainingJobs to be served: %s", error)
                await asyncio.sleep(WAIT_FOR_CRD_SECONDS)

    async def run(self, seconds: float) -> None:
        """For ever, every `seconds`."""
        while True:
            for kind in self._kinds:
                try:
                    asked = self._clock()
                    self._feed.listed(kind, await self._list(kind), asked)
                except ApiError as error:
                    _logger.warning("%s could not be listed: %s", kind, error)
            await asyncio.sleep(seconds)

    async def _list(self, kind: Kind) -> list[Json]:
        namespaces = [""] if kind is Kind.NODES else self._namespaces
        selector = RESOURCES[kind].selector
        pages = [await self._api.list(path(kind, name), selector, metadata_only=True) for name in namespaces]
        return [item for page in pages for item in page]
