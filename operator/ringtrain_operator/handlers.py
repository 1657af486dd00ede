"""kopf's part: watches that feed keys. No handler that keeps state on objects, so no finalizers and no annotations."""

from collections.abc import Iterable

import kopf

from ringtrain_operator.cluster.credentials import login
from ringtrain_operator.cluster.kinds import RESOURCES, Kind
from ringtrain_operator.feed import Feed

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 70.0
"""A watch without even a bookmark, which the API server sends once a minute, is opened anew."""


def registry(feed: Feed, kinds: Iterable[Kind]) -> kopf.OperatorRegistry:
    """The handlers of these `kinds`."""
    handlers = kopf.OperatorRegistry()
    kopf.on.login(registry=handlers)(login)

    for kind in kinds:
        _watch(handlers, feed, kind)
    return handlers


def _watch(handlers: kopf.OperatorRegistry, feed: Feed, kind: Kind) -> None:
    of = RESOURCES[kind]
    labels = {of.selector: kopf.PRESENT} if of.selector else None

    @kopf.on.event(of.group, of.version, kind.value, labels=labels, id=kind.value, registry=handlers)
    async def _(event: kopf.RawEvent, **_: object) -> None:
        feed.event(kind, event["object"], deleted=event["type"] == "DELETED")


def settings() -> kopf.OperatorSettings:
    """kopf's settings."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    # Watching CRDs and namespaces would need rights over the whole cluster.
    chosen.scanning.disabled = True
    chosen.watching.inactivity_timeout = SILENCE_SECONDS
    chosen.watching.connect_timeout = CONNECT_SECONDS
    for kind, of in RESOURCES.items():
        if of.selector:
            chosen.watching.label_selectors[of.group, of.version, kind.value] = of.selector
    chosen.watching.chunk_size = 500
    chosen.networking.request_timeout = REQUEST_SECONDS
    chosen.networking.connect_timeout = CONNECT_SECONDS
    return chosen
