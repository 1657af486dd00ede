"""Looking things up in rendered manifests."""

from collections.abc import Callable, Iterator
from typing import Any

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def only(manifests: list[Manifest], kind: str) -> Manifest:
    """The only one of its kind. Raises ValueError when there are none or several."""
    (manifest,) = of_kind(manifests, kind)
    return manifest


def walk(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key of every mapping inside `value`, with what it holds."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)
