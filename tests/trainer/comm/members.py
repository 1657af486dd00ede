"""All members of an all-reduce as threads of this process."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def together(bodies: Sequence[Callable[[], T]]) -> list[T]:
    """Runs all bodies at once; their results, or the first one's exception."""
    results: dict[int, T] = {}
    failures: list[BaseException] = []

    def run(index: int) -> None:
        try:
            results[index] = bodies[index]()
        except BaseException as error:  # Raised again below.
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(bodies))]
