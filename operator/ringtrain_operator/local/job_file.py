"""Reading a TrainingJob from a YAML file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ringtrain_operator.api.spec import GROUP, KIND, VERSION

ANY_IMAGE = {"image": "any"}
"""For a job whose file names none: on this machine none is used, and a cluster may have a default."""


class BadJobFile(Exception):
    """The file holds no TrainingJob; the message says where and what to do."""


class _Loader(yaml.SafeLoader):
    """Reads what kubectl reads: 3e-3 is a number, and a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)


@dataclass(frozen=True, slots=True)
class JobFile:
    path: Path
    name: str
    namespace: str
    metadata: Mapping[str, Any]
    """Raw, as name, namespace and spec are: none of them is validated yet."""
    spec: Mapping[str, Any]
    ignored: tuple[str, ...] = ()
    """Kinds of the file's other documents."""


def read_job_file(path: Path) -> JobFile:
    """The one TrainingJob in `path`. Raises BadJobFile."""
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), _Loader))
    except OSError as error:
        raise BadJobFile(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadJobFile(f"{path}: is not UTF-8 text") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise BadJobFile(f"{where}: not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise BadJobFile(f"{path}: not valid YAML: {error}") from error
    except RecursionError as error:
        raise BadJobFile(f"{path}: not valid YAML: nested too deeply") from error
    return _find_job(path, [document for document in documents if document is not None])


def _find_job(path: Path, documents: list[Any]) -> JobFile:
    for document in documents:
        if not isinstance(document, dict):
            raise BadJobFile(f"{path}: expected a TrainingJob object, found {type(document).__name__}")
    jobs = [document for document in documents if document.get("kind") == KIND]
    others = tuple(str(document.get("kind")) for document in documents if document.get("kind") != KIND)
    if not jobs:
        found = f"found kind {', '.join(others)}" if others else "the file is empty"
        raise BadJobFile(f"{path}: no object of kind {KIND}: {found}")
    if len(jobs) > 1:
        raise BadJobFile(f"{path}: holds {len(jobs)} objects of kind {KIND}: put each in its own file")
    return _job(path, jobs[0], others)


def _job(path: Path, document: Mapping[str, Any], ignored: tuple[str, ...]) -> JobFile:
    if document.get("apiVersion") != f"{GROUP}/{VERSION}":
        raise BadJobFile(f"{path}: apiVersion is {document.get('apiVersion')!r}: expected {GROUP}/{VERSION}")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or "name" not in metadata:
        raise BadJobFile(f"{path}: metadata.name is missing")
    name, namespace = metadata["name"], metadata.get("namespace", "default")
    for field, value in (("metadata.name", name), ("metadata.namespace", namespace)):
        if not isinstance(value, str):
            raise BadJobFile(f"{path}: {field} is {value!r}: expected text")
    spec = document.get("spec")
    if not isinstance(spec, dict):
        raise BadJobFile(f"{path}: spec is missing")
    return JobFile(path, name, namespace, metadata, spec, ignored)
