"""Leading by a Lease: taking it, renewing it, giving it back.

The official client's leader election ends when the API server does not answer, has no time-out for a renewal, and never
gives a lease back; so it is not used.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from ringtrain_operator.cluster.api import ApiError, Json, KubernetesApi
from ringtrain_operator.election import Seen, claimed, is_free, released, see

_RENEWALS = 7.5
"""While a lease lasts."""
_GIVEN_UP = 2 / 3
"""Of the lease's time: whoever could not renew it for so long leads no more, well before another may."""
_RELEASE_SECONDS = 5.0

_logger = logging.getLogger(__name__)


class LeaseName(NamedTuple):
    namespace: str
    name: str


class LeadershipLost(Exception):
    """The lease could not be renewed in time, or another operator has taken it."""


class Leadership:
    """`me` differs between all processes that ever were; `clock` is monotonic, in seconds."""

    def __init__(
        self, api: KubernetesApi, lease: LeaseName, me: str, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._api = api
        self._name = lease
        self._root = f"/apis/coordination.k8s.io/v1/namespaces/{lease.namespace}/leases"
        self._me = me
        self._seconds = seconds
        self._clock = clock
        self._lease: Json | None = None
        self._renewed = float("-inf")

    def holds(self) -> bool:
        """Whether this process leads: no other does."""
        return self._clock() - self._renewed < _GIVEN_UP * self._seconds

    async def acquire(self) -> None:
        """Waits until it is this process that leads."""
        seen: Seen | None = None
        said = ""
        while True:
            try:
                self._lease = await self._api.get(f"{self._root}/{self._name.name}")
                if self._lease is not None:
                    seen = see(self._lease, seen, self._clock())
                    if said != seen.holder:
                        said = seen.holder
                        _logger.info("%s leads; standing by as %s", said or "nobody", self._me)
                if self._lease is None or (seen is not None and is_free(seen, self._me, self._clock())):
                    await self._claim()
                    _logger.info("leading as %s", self._me)
                    return
            except ApiError as error:
                if error.reason not in ("AlreadyExists", "Conflict"):
                    _logger.warning("the lease could not be taken: %s", error)
            await asyncio.sleep(self._seconds / _RENEWALS)

    async def keep(self) -> None:
        """Renews the lease for ever. Raises LeadershipLost."""
        while True:
            await asyncio.sleep(self._seconds / _RENEWALS)
            try:
                left = self._renewed + _GIVEN_UP * self._seconds - self._clock()
                async with asyncio.timeout(max(0.0, left)):
                    await self._renew()
            except (ApiError, TimeoutError) as error:
                if not self.holds():
                    raise LeadershipLost(f"the lease could not be renewed: {error or 'no answer'}") from error
                _logger.warning("the lease was not renewed: %s", error)

    async def release(self) -> None:
        """When all work has stopped: another need not wait for the lease's end."""
        if self._lease is None or not self.holds():
            return
        self._renewed = float("-inf")
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._put(released(self._lease))
        except (ApiError, TimeoutError) as error:
            _logger.warning("the lease was not given back: %s", error)

    async def _renew(self) -> None:
        try:
            await self._claim()
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            # A renewal whose answer was lost may have counted.
            self._lease = await self._api.get(f"{self._root}/{self._name.name}")
            holder = see(self._lease, None, 0).holder if self._lease is not None else "nobody"
            if holder != self._me:
                raise LeadershipLost(f"{holder} has taken the lease") from error
            await self._claim()

    async def _claim(self) -> None:
        asked = self._clock()
        await self._put(claimed(self._lease, self._me, self._seconds, datetime.now(UTC)))
        self._renewed = asked

    async def _put(self, spec: Json) -> None:
        metadata: Json = {"namespace": self._name.namespace, "name": self._name.name}
        body: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        if self._lease is None:
            self._lease = await self._api.request("POST", self._root, body=body)
        else:
            metadata["resourceVersion"] = self._lease["metadata"]["resourceVersion"]
            self._lease = await self._api.request("PUT", f"{self._root}/{self._name.name}", body=body)
