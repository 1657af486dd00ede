"""What the source says: which reasons it gives, and what stands under its constants."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import ringtrain
import ringtrain_operator

_FOLDERS = tuple(Path(inspect.getfile(package)).parent for package in (ringtrain, ringtrain_operator))
_ARGUMENT = {
    "Event": 1,
    "noticed": 2,
    "report": 0,
    "_report": 0,
    "GivenUp": 0,
    "Lack": 1,
    "_Cause": 0,
    "with_condition": 3,
}
"""Calls that take a reason, and where."""


def reasons() -> dict[str, str]:
    """Of events, failures and conditions, with the file that gives each first. Those that are only passed on, such as a
    pod's, are not among them."""
    found: dict[str, str] = {}
    for file, tree in _trees():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            place = _ARGUMENT.get(_name(call.func))
            if place is not None and len(call.args) > place:
                for reason in _texts(call.args[place]):
                    found.setdefault(reason, file)
    return found


def constant_docs(module: ModuleType, name: str) -> dict[str, str]:
    """The texts under the constants of a class, by the constant's name."""
    tree = ast.parse(inspect.getsource(module))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return {
        target.id: " ".join(text.value.value.split())
        for constant, text in pairwise(body)
        if isinstance(constant, ast.Assign) and isinstance(target := constant.targets[0], ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


@cache
def _trees() -> tuple[tuple[str, ast.Module], ...]:
    return tuple(
        (file.relative_to(folder.parent).as_posix(), ast.parse(file.read_text()))
        for folder in _FOLDERS
        for file in sorted(folder.rglob("*.py"))
    )


@cache
def _constants() -> dict[str, str]:
    """Texts that modules name in capitals."""
    return {
        target.id: node.value.value
        for _, tree in _trees()
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name) and target.id.isupper()
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def _texts(argument: ast.expr) -> Iterator[str]:
    """CamelCase texts in an expression, constants by their names included."""
    if isinstance(argument, ast.IfExp):
        yield from _texts(argument.body)
        yield from _texts(argument.orelse)
    elif isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        if argument.value[:1].isupper():
            yield argument.value
    elif isinstance(argument, ast.Name) and argument.id in _constants():
        yield _constants()[argument.id]


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
