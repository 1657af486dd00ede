"""A small JSON client of the Kubernetes API: plain dicts, time-outs, bounded retries.

It stands on the official client's transport, but not on its models: those refuse fields that other API servers than
the client's own release send.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.rest import RESTResponse

from ringtrain_operator.cluster.credentials import load_configuration
from ringtrain_operator.cluster.rate import Rate

Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Json = dict[str, Any]

REQUEST_SECONDS = 15.0
ATTEMPTS = 4
LONGEST_BACKOFF = 5.0
SILENCE_SECONDS = 60.0
"""A stream without a byte for so long is given up: its connection may be dead."""
PAGE = 500
"""Objects in one answer to a list."""
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
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

    def __init__(
        self,
        client: ApiClient,
        on_attempt: Callable[[Verb, int, float], None],
        may_write: Callable[[], bool],
        context: str | None = None,
        rate: Rate | None = None,
    ) -> None:
        self._client = client
        self._on_attempt = on_attempt
        self._may_write = may_write
        self._context = context
        self._rate = rate

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        on_attempt: Callable[[Verb, int, float], None] = lambda _verb, _status, _seconds: None,
        may_write: Callable[[], bool] = lambda: True,
        context: str | None = None,
        rate: Rate | None = None,
    ) -> AsyncIterator["KubernetesApi"]:
        """Credentials are the pod's, or those of a kubeconfig: of its current context, or of the one that is named.
        `on_attempt` hears of each attempt: its HTTP status, 0 when there was no answer, and the seconds it took.
        `may_write` is asked before each attempt that would change something. Without `rate` there is no limit."""
        client = ApiClient(await load_configuration(context))
        client.user_agent = "ringtrain-operator"
        try:
            yield cls(client, on_attempt, may_write, context, rate)
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
        content: str = "application/merge-patch+json",
    ) -> Json:
        """The answer; `content` is of patches. Raises ApiError, after a few attempts when a later one could succeed."""
        attempt = 1
        while True:
            if self._rate is not None:
                await asyncio.sleep(self._rate.take(time.monotonic()))
            try:
                return await self._attempt(verb, path, query or {}, body, accept or "application/json", content)
            except _Failed as failed:
                if failed.retry_after is None or attempt == ATTEMPTS:
                    raise failed.error from failed.__cause__
                if failed.error.status == 401:
                    self._client.configuration.api_key.update((await load_configuration(self._context)).api_key)
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

    async def list(self, path: str, selector: str = "", *, fields: str = "", metadata_only: bool = False) -> list[Json]:
        """All objects under `path` that `selector` (of labels) and `fields` (a selector of fields) take, read from the
        store, not from a cache."""
        items: list[Json] = []
        selectors = {"labelSelector": selector, "fieldSelector": fields}
        query = {"limit": str(PAGE)} | {name: text for name, text in selectors.items() if text}
        while True:
            page = await self.request("GET", path, query=query, accept=_METADATA_ONLY if metadata_only else "")
            items += page.get("items") or []
            token = page.get("metadata", {}).get("continue")
            if not token:
                return items
            query["continue"] = token

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """What the answer has line by line, as it comes, without line ends. Raises ApiError, also in the middle. Not
        tried again: only the caller knows where to go on."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=SILENCE_SECONDS)
        rest = b""
        try:
            response = await self._send("GET", path, query, None, {"Accept": "*/*"}, timeout)
            async with response.response:
                if response.status >= 300:
                    raise _refusal("GET", path, response, await response.read())  # type: ignore[no-untyped-call]
                async for chunk in response.response.content.iter_any():
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer("GET", path, error) from error
        if rest:
            yield rest

    async def _attempt(
        self, verb: Verb, path: str, query: Mapping[str, str], body: Json | None, accept: str, content: str
    ) -> Json:
        if verb != "GET" and not self._may_write():
            raise _Failed(ApiError(verb, path, 0, "NotLeading", "another operator may lead by now"), retry_after=None)
        headers = {"Accept": accept}
        if verb == "PATCH":
            headers["Content-Type"] = content
        began = time.monotonic()
        try:
            response = await self._send(verb, path, query, body, headers, aiohttp.ClientTimeout(total=REQUEST_SECONDS))
            data = await response.read()  # type: ignore[no-untyped-call]
            self._on_attempt(verb, response.status, time.monotonic() - began)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._on_attempt(verb, 0, time.monotonic() - began)
            raise _Failed(_no_answer(verb, path, error), retry_after=0) from error
        if response.status < 300:
            return _parse(data)
        retry_after = _seconds(response.headers.get("Retry-After")) if response.status in _RETRIED else None
        raise _Failed(_refusal(verb, path, response, data), retry_after)

    async def _send(
        self,
        verb: Verb,
        path: str,
        query: Mapping[str, str],
        body: Json | None,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> RESTResponse:
        parameters = await self._client.param_serialize(
            verb,
            path,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        return await self._client.call_api(*parameters, _request_timeout=timeout)


class _Failed(Exception):
    def __init__(self, error: ApiError, retry_after: float | None) -> None:
        self.error = error
        self.retry_after = retry_after
        """None: another attempt is pointless."""


def _no_answer(verb: Verb, path: str, error: Exception) -> ApiError:
    return ApiError(verb, path, 0, type(error).__name__, str(error) or "no answer")


def _refusal(verb: Verb, path: str, response: RESTResponse, data: bytes) -> ApiError:
    answer = _parse(data)
    message = str(answer.get("message") or data[:500].decode(errors="replace") or response.reason)
    return ApiError(verb, path, response.status, str(answer.get("reason") or response.reason), message)


def _parse(data: bytes) -> Json:
    try:
        answer = json.loads(data)
    except ValueError:
        return {}
    return cast(Json, answer) if isinstance(answer, dict) else {}


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() else 0.0
