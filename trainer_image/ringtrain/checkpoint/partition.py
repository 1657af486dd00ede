"""How ranks share the writing of what all of them hold."""

from collections.abc import Mapping


def partition(sizes: Mapping[str, int], parts: int) -> list[list[str]]:
    """Divides names among `parts` evenly by bytes: the largest parts differ by at most one tensor's size.

    Depends on names and sizes alone, so that every rank finds the same division by itself.
    """
    if parts < 1:
        raise ValueError(f"cannot divide among {parts} parts")
    division: list[list[str]] = [[] for _ in range(parts)]
    loads = [0] * parts
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        lightest = loads.index(min(loads))
        division[lightest].append(name)
        loads[lightest] += sizes[name]
    return division
