"""A checkpoint's model alone, in a file that plain PyTorch and Transformers load."""

import os
from pathlib import Path
from typing import Any, TypeGuard

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from ringtrain.checkpoint.listing import Damaged, Unusable
from ringtrain.checkpoint.manifest import Manifest
from ringtrain.checkpoint.shard import DamagedFile
from ringtrain.checkpoint.source import VolumeSource
from ringtrain.checkpoint.state import read_replicated
from ringtrain.checkpoint.tree import Tree, Unread


def read_model(directory: Path, manifest: Manifest, chosen: str | None) -> dict[str, Tensor]:
    """The model's tensors by name, verified; in training code of one's own, those of the object called `chosen`, by
    default of the only one that is a module's state.

    Raises Unusable when there is no such object, or a choice of several; Damaged.
    """
    found = _read(directory, manifest, ())
    try:
        prefix = _place(found, chosen)
    except Unusable as error:
        raise Unusable(f"{directory.name}: {error}") from error
    found = _read(directory, manifest, prefix)
    for key in prefix:
        found = found[key]
    return dict(found)


def write(tensors: dict[str, Tensor], out: Path) -> None:
    """Writes `out`, or replaces it, once all is there. Raises OSError."""
    partial = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        # The library makes files that nobody but their owner may read.
        partial.touch()
        mode = partial.stat().st_mode
        save_file(tensors, partial, metadata={"format": "pt"})
        partial.chmod(mode)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(out)
    except (OSError, SafetensorError) as error:
        raise OSError(f"{out} cannot be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _read(directory: Path, manifest: Manifest, prefix: tuple[str, ...]) -> Tree:
    """The replicated state, with no other tensors than those below `prefix`; with none when it is empty."""
    beginning = "".join(f"{key}/" for key in prefix)
    source = VolumeSource(directory, manifest)
    try:
        return read_replicated(source, lambda: None, lambda path: bool(prefix) and path.startswith(beginning))
    except DamagedFile as error:
        raise Damaged(f"{directory.name}: {error}") from error


def _place(state: Tree, chosen: str | None) -> tuple[str, ...]:
    """Where in the replicated state the model is. Raises Unusable."""
    objects = state.get("objects") if isinstance(state, dict) else None
    if not isinstance(objects, dict):
        if chosen is not None:
            raise Unusable("it was saved by the built-in trainer, which has one model: leave --object out")
        if not (isinstance(state, dict) and _is_module(state.get("model"))):
            raise Unusable("it holds no model")
        return ("model",)
    modules = [name for name, value in objects.items() if _is_module(value)]
    if chosen is None and len(modules) != 1:
        several = f"several models: choose one of {', '.join(modules)} by --object"
        raise Unusable(f"it holds {several if modules else 'no model: no object of it is a flat dict of tensors'}")
    if chosen is not None and chosen not in modules:
        problem = "is no model, which is a flat dict of tensors" if chosen in objects else "is not in it"
        raise Unusable(f"object {chosen} {problem}: its models are {', '.join(modules) or 'none'}")
    return ("objects", chosen or modules[0])


def _is_module(value: Any) -> TypeGuard[dict[str, Unread]]:
    return isinstance(value, dict) and bool(value) and all(isinstance(leaf, Unread) for leaf in value.values())
