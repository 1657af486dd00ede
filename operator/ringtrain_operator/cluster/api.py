"""A small JSON client of the Kubernetes API: plain dicts, time-outs, bounded retries.

It stands on the official client's transport, but not on its models: those refuse fields that other API servers than
the client's own release send.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import aiohttp
from kubernetes.aio.client import ApiClient

from ringtrain_operator.cluster.credentials import load_configuration

Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Json = dict[str, Any]

REQUEST_SECONDS = 15.0
ATTEMPTS = 4
LONGEST_BACKOFF = 5.0
PAGE = 500
"""Objects in one answer to a list."""
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_ANSWERS = frozenset({404, 409})
_RETRIED = frozenset({401, 429, 500, 502, 503, 504})


class ApiError(Exception):
    """The API server refused a request, or could not be reached (status 0)."""

    def __init__(self, verb: Verb, path: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{verb} {path}: {message} ({status} {reason})")
        self.status = status
        self.reason = reason
        """Of metav1.Status, such as AlreadyExists; a type of exception when there was no answer."""
        self.message = message


class KubernetesApi:
    """Requests to one API server. Every verb that is used on it may safely be sent twice."""

    def __init__(self, client: ApiClient, on_error: Callable[[Verb, int], None]) -> None:
        self._client = client
        self._on_error = on_error

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, on_error: Callable[[Verb, int], None] = lambda _verb, _status: None
    ) -> AsyncIterator["KubernetesApi"]:
        """Credentials are the pod's, or those of a kubeconfig. `on_error` hears of each failed attempt, except of
        objects that do not exist, exist already or have changed."""
        client = ApiClient(await load_configuration())
        client.user_agent = "ringtrain-operator"
        try:
            yield cls(client, on_error)
        finally:
            await client.close()  # type: ignore[no-untyped-call]

    async def request(
        self,
        verb: Verb,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        accept: str = "",
    ) -> Json:
        """The answer. Raises ApiError, after a few attempts when a later one could succeed."""
        attempt = 1
        while True:
            try:
                return await self._attempt(verb, path, query or {}, body, accept or "application/json")
            except _Failed as failed:
                if failed.error.status not in _ANSWERS:
                    self._on_error(verb, failed.error.status)
                if failed.retry_after is None or attempt == ATTEMPTS:
                    raise failed.error from failed.__cause__
                if failed.error.status == 401:
                    self._client.configuration.api_key.update((await load_configuration()).api_key)
                backoff = 0.2 * 2**attempt * random.uniform(0.5, 1.5)
                await asyncio.sleep(min(max(backoff, failed.retry_after), LONGEST_BACKOFF))
                attempt += 1

    async def get(self, path: str) -> Json | None:
        """None when there is no such object."""
        try:
            return await self.request("GET", path)
        except ApiError as error:
            # Any other 404 is of a server that does not know the path, and must not pass for a node that is gone.
            if error.reason == "NotFound":
                return None
            raise

    async def list(self, path: str, selector: str = "", *, metadata_only: bool = False) -> list[Json]:
        """All objects under `path` that `selector` (of labels) takes, read from the store, not from a cache."""
        items: list[Json] = []
        query = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
        while True:
            page = await self.request("GET", path, query=query, accept=_METADATA_ONLY if metadata_only else "")
            items += page.get("items") or []
            token = page.get("metadata", {}).get("continue")
            if not token:
                return items
            query["continue"] = token

    async def _attempt(self, verb: Verb, path: str, query: Mapping[str, str], body: Json | None, accept: str) -> Json:
        headers = {"Accept": accept}
        if verb == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        try:
            parameters = await self._client.param_serialize(
                verb,
                path,
                query_params=list(query.items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
            response = await self._client.call_api(*parameters, _request_timeout=timeout)
            data = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            kind = type(error).__name__
            raise _Failed(ApiError(verb, path, 0, kind, str(error) or "no answer"), retry_after=0) from error
        answer = _parse(data)
        if response.status < 300:
            return answer
        message = str(answer.get("message") or data[:500].decode(errors="replace") or response.reason)
        refusal = ApiError(verb, path, response.status, str(answer.get("reason") or response.reason), message)
        retry_after = _seconds(response.headers.get("Retry-After")) if response.status in _RETRIED else None
        raise _Failed(refusal, retry_after)


class _Failed(Exception):
    def __init__(self, error: ApiError, retry_after: float | None) -> None:
        self.error = error
        self.retry_after = retry_after
        """None: another attempt is pointless."""


def _parse(data: bytes) -> Json:
    try:
        answer = json.loads(data)
    except ValueError:
        return {}
    return cast(Json, answer) if isinstance(answer, dict) else {}


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() else 0.0
