"""What the operator's benchmark asks of an API server beside plain requests: watches, and a namespace of its own."""

import asyncio
import json
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes.aio.client import Configuration

from ringtrain_operator.api.spec import GROUP, KIND, PLURAL, VERSION
from ringtrain_operator.cluster.api import ApiError, Json, KubernetesApi
from ringtrain_operator.cluster.credentials import load_configuration

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD_PATH = f"{CRDS}/{PLURAL}.{GROUP}"
CRD = Path(__file__).parents[1] / "crds" / f"{GROUP}_{PLURAL}.yaml"
WAIT_SECONDS = 60.0
_LONGEST_LINE = 8 << 20
"""Bytes of one event: the status of a job with thousands of replicas is long."""


def jobs_path(namespace: str, name: str = "") -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}" + (f"/{name}" if name else "")


def pods_path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def training_job(name: str, spec: Json) -> Json:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": {"name": name}, "spec": spec}


async def watch(path: str, seen: Callable[[str, Json], None]) -> None:
    """Tells `seen` of every event (its type, the object) under `path`, from the first object on, until cancelled."""
    configuration = await load_configuration()
    connector = aiohttp.TCPConnector(ssl=_ssl(configuration))
    token = configuration.api_key.get("BearerToken", "")
    headers = {"Authorization": token} if token else {}
    version = ""
    async with aiohttp.ClientSession(configuration.host, connector=connector, headers=headers) as session:
        while True:
            query = {"watch": "1", "allowWatchBookmarks": "true"} | ({"resourceVersion": version} if version else {})
            timeout = aiohttp.ClientTimeout(total=None)
            async with session.get(path, params=query, timeout=timeout, read_bufsize=_LONGEST_LINE) as response:
                response.raise_for_status()
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise RuntimeError(f"the watch of {path} ended: {event['object']}")
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        seen(event["type"], event["object"])


@asynccontextmanager
async def namespace(api: KubernetesApi) -> AsyncIterator[str]:
    """The name of a fresh namespace, on a server that serves TrainingJobs; it is deleted after the block."""
    await until(lambda: _no_crd_ends(api), "the CRD that is being deleted is gone")
    had_crd = await api.get(CRD_PATH) is not None
    if not had_crd:
        await api.request("POST", CRDS, body=yaml.safe_load(CRD.read_text()))
    name = f"bench-{uuid.uuid4().hex[:8]}"
    await api.request(
        "POST", "/api/v1/namespaces", body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    try:
        await until(lambda: _is_usable(api, name), "the namespace is usable")
        yield name
    finally:
        await _cleared(api, name)
        if not had_crd:
            await _remove_crd(api)


async def until(condition: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Raises TimeoutError. `condition` is a function, or a coroutine function, that becomes true."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = condition()
                if await found if asyncio.iscoroutine(found) else found:
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise TimeoutError(f"not within {seconds:.0f} s: {what}") from None


async def _is_usable(api: KubernetesApi, name: str) -> bool:
    container = {"name": "any", "image": "none"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, "spec": {"containers": [container]}}
    try:
        await api.list(jobs_path(name))
        # Refused until the namespace has its service account.
        await api.request("POST", pods_path(name), query={"dryRun": "All"}, body=pod)
    except ApiError:
        return False
    return True


async def _cleared(api: KubernetesApi, name: str) -> None:
    """Pods go at once: nobody runs them, and nobody would end them."""
    for path in (jobs_path(name), pods_path(name)):
        await api.request("DELETE", path, body={"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    await api.request("DELETE", f"/api/v1/namespaces/{name}")


async def _no_crd_ends(api: KubernetesApi) -> bool:
    raw = await api.get(CRD_PATH)
    return raw is None or "deletionTimestamp" not in raw["metadata"]


async def _remove_crd(api: KubernetesApi) -> None:
    """Unless somebody else has begun to use it."""
    raw = await api.get(CRD_PATH)
    adopted = raw is not None and "meta.helm.sh/release-name" in raw["metadata"].get("annotations", {})
    if adopted or await api.list(f"/apis/{GROUP}/{VERSION}/{PLURAL}"):
        return
    await api.request("DELETE", CRD_PATH)


def _ssl(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
