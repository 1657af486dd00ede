"""Checking `spec.template.spec`, the partial PodSpec that is merged into the job's pods."""

import posixpath
from collections.abc import Iterator, Mapping, Set
from typing import Any

from ringtrain.contract.environment import PREFIX
from ringtrain_operator.api import reserved
from ringtrain_operator.api.pod_spec import type_problems
from ringtrain_operator.api.problem import Location, Problem


def template_problems(spec: Mapping[str, Any], root: Location) -> Iterator[Problem]:
    """All that is wrong with the partial PodSpec at `root`."""
    wrong = tuple(type_problems(spec, root))
    yield from wrong
    for field, why in reserved.POD_FIELDS.items():
        if field in spec:
            yield Problem((*root, field), f"remove it: {why}")
    yield from _taken_back(spec, root)
    unsound = {problem.location[: len(root) + 2] for problem in wrong}
    volumes = _sound(spec, "volumes", root, unsound)
    init_containers = _sound(spec, "initContainers", root, unsound)
    containers = _sound(spec, "containers", root, unsound)
    for location, secret in _sound(spec, "imagePullSecrets", root, unsound).items():
        if not secret.get("name"):
            yield Problem((*location, "name"), "is required")
    yield from _volumes(volumes)
    yield from _repeated(init_containers | containers)
    for location, container in (init_containers | containers).items():
        yield from _environment(container, location)
    for location, container in init_containers.items():
        yield from _helper(container, location)
        if container["name"] == reserved.CONTAINER:
            yield Problem((*location, "name"), f"{reserved.CONTAINER} is reserved for the training container")
    for location, container in containers.items():
        if container["name"] == reserved.CONTAINER:
            yield from _training_container(container, location)
        else:
            yield from _helper(container, location)
    if not any("volumes" in location[len(root) :] for location in unsound):
        yield from _mounts(init_containers | containers, {volume["name"] for volume in volumes.values()})


def _sound(spec: Mapping[str, Any], field: str, root: Location, unsound: Set[Location]) -> dict[Location, Any]:
    """The entries of the list `field` whose types are right, by location."""
    entries = (spec.get(field) or ()) if (*root, field) not in unsound else ()
    located = {(*root, field, index): entry for index, entry in enumerate(entries)}
    return {location: entry for location, entry in located.items() if location not in unsound}


def _taken_back(fields: Mapping[str, Any], location: Location) -> Iterator[Problem]:
    for field in sorted(reserved.NEEDED & fields.keys()):
        if fields[field] is None:
            yield Problem((*location, field), "must not be null: the job needs its own")


def _volumes(volumes: Mapping[Location, Any]) -> Iterator[Problem]:
    for location, volume in volumes.items():
        if volume["name"] in reserved.VOLUMES:
            yield Problem(
                (*location, "name"), f"{volume['name']} is reserved for a volume of the job's own: choose another name"
            )
    yield from _repeated(volumes)


def _repeated(entries: Mapping[Location, Any]) -> Iterator[Problem]:
    seen: set[str] = set()
    for location, entry in entries.items():
        if entry["name"] in seen:
            yield Problem((*location, "name"), f"{entry['name']} is used twice")
        seen.add(entry["name"])


def _environment(container: Mapping[str, Any], location: Location) -> Iterator[Problem]:
    for index, variable in enumerate(container.get("env") or ()):
        if variable["name"].startswith(PREFIX):
            yield Problem(
                (*location, "env", index, "name"), f"{variable['name']}: {PREFIX}* is reserved for the operator"
            )


def _helper(container: Mapping[str, Any], location: Location) -> Iterator[Problem]:
    """A container beside the training container."""
    if container.get("image") is None:
        yield Problem(
            (*location, "image"), f"is required: only the container named {reserved.CONTAINER} has one already"
        )


def _training_container(container: Mapping[str, Any], location: Location) -> Iterator[Problem]:
    for field, instead in reserved.CONTAINER_FIELDS.items():
        if field in container:
            yield Problem((*location, field), f"cannot be set here: {instead}")
    yield from _taken_back(container, location)
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        path = posixpath.normpath("/" + mount["mountPath"].lstrip("/"))
        hidden = next((own for own in sorted(reserved.MOUNT_PATHS) if posixpath.commonpath([path, own]) == path), None)
        if hidden is not None:
            yield Problem(
                (*location, "volumeMounts", index, "mountPath"),
                f"{mount['mountPath']} would hide {hidden}, which the job mounts itself: choose another path",
            )


def _mounts(containers: Mapping[Location, Any], volumes: Set[str]) -> Iterator[Problem]:
    for location, container in containers.items():
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            if mount["name"] not in volumes | reserved.VOLUMES:
                yield Problem(
                    (*location, "volumeMounts", index, "name"),
                    f"there is no volume {mount['name']}: add it to spec.template.spec.volumes",
                )
