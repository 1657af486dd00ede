"""Functions compiled by numba at their first call, and kept on disk for the next process."""

import contextlib
import hashlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core.caching import FunctionCache

from ringtrain.comm.codec import zfp_format, zfp_planes, zfp_values, zfp_vectors, zfp_words

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _sources() -> str:
    """A hash of all that goes into the kernels besides their own file."""
    sources = [inspect.getsource(module) for module in (zfp_format, zfp_planes, zfp_values, zfp_vectors, zfp_words)]
    return hashlib.sha256("".join(sources).encode()).hexdigest()


class _Cache(FunctionCache):
    """numba's cache of machine code, which by itself looks at a function's own file only to see whether it is stale."""

    def _index_key(self, *arguments: Any) -> tuple[Any, ...]:
        return (*super()._index_key(*arguments), _SOURCES)


_SOURCES = _sources()


def compiled(function: _Function) -> _Function:
    """Runs without the GIL. Machine code is kept in `NUMBA_CACHE_DIR`, `__pycache__` or the user's cache folder, if any
    can be written to.
    """
    dispatcher = njit(nogil=True)(function)
    with contextlib.suppress(RuntimeError):  # No folder can be written to.
        dispatcher._cache = _Cache(function)
    return dispatcher
