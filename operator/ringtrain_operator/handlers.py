"""kopf's part: watches that feed keys. No handler that keeps state on objects, so no finalizers and no annotations."""

import kopf

from ringtrain_operator.api.spec import GROUP, PLURAL, VERSION
from ringtrain_operator.cluster.credentials import login
from ringtrain_operator.feed import Feed, Kind
from ringtrain_operator.plan.names import LABEL_JOB

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 70.0
"""A watch without even a bookmark, which the API server sends once a minute, is opened anew."""


def registry(feed: Feed) -> kopf.OperatorRegistry:
    """The handlers."""
    handlers = kopf.OperatorRegistry()
    kopf.on.login(registry=handlers)(login)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=handlers)
    async def on_job(event: kopf.RawEvent, **_: object) -> None:
        feed.event(Kind.JOBS, event["object"], deleted=event["type"] == "DELETED")

    @kopf.on.event("", "v1", "pods", labels={LABEL_JOB: kopf.PRESENT}, registry=handlers)
    async def on_pod(event: kopf.RawEvent, **_: object) -> None:
        feed.event(Kind.PODS, event["object"], deleted=event["type"] == "DELETED")

    @kopf.on.event("", "v1", "nodes", registry=handlers)
    async def on_node(event: kopf.RawEvent, **_: object) -> None:
        feed.event(Kind.NODES, event["object"], deleted=event["type"] == "DELETED")

    return handlers


def settings() -> kopf.OperatorSettings:
    """kopf's settings."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    # Watching CRDs and namespaces would need rights over the whole cluster.
    chosen.scanning.disabled = True
    chosen.watching.inactivity_timeout = SILENCE_SECONDS
    chosen.watching.connect_timeout = CONNECT_SECONDS
    chosen.watching.label_selectors["", "v1", "pods"] = LABEL_JOB
    chosen.watching.chunk_size = 500
    chosen.networking.request_timeout = REQUEST_SECONDS
    chosen.networking.connect_timeout = CONNECT_SECONDS
    return chosen
