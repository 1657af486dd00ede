"""Which ranks are unfit, by what all of them measured: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from ringtrain.contract.report import Fitness

_WORTH = 0.02
"""Seconds by which an exchange must be slower: quick ones differ by chance."""


@dataclass(frozen=True, slots=True)
class Measured:
    """By one rank."""

    product: float | None
    """Seconds of the matrix product; None: it came out wrong."""
    exchanges: Mapping[int, float | None]
    """Seconds by peer; None: it was not over in time, or brought something wrong."""


@dataclass(frozen=True, slots=True)
class Verdict:
    fitness: Mapping[int, Fitness]
    """By rank, of those that are fit."""
    unfit: Mapping[int, str]
    """By rank, what is wrong with the others."""


def judge(measured: Sequence[Measured], slower_than: float) -> Verdict:
    """`measured` is by rank. Of a rank, its quickest exchange counts: with a slow peer everybody is slow."""
    products = [one.product for one in measured]
    exchanges = [_quickest(rank, measured) for rank in range(len(measured))]
    fitness, unfit = {}, {}
    for rank, (product, exchange) in enumerate(zip(products, exchanges, strict=True)):
        what = f"exchange with rank {' or '.join(map(str, sorted(measured[rank].exchanges)))}"
        problem = ""
        if exchange is not None:
            problem = _slow(what, exchange, exchanges, slower_than, _WORTH)
        elif measured[rank].exchanges:
            problem = f"no {what} came to its end in time, with what was sent"
        if product is None:
            unfit[rank] = "its matrix product is wrong"
        elif problem := _slow("matrix product", product, products, slower_than) or problem:
            unfit[rank] = problem
        else:
            fitness[rank] = Fitness(product=product, exchange=exchange)
    return Verdict(fitness, unfit)


def told(fitness: Mapping[int, Fitness]) -> str:
    """One sentence on ranks that are all fit."""
    products = {rank: one.product for rank, one in fitness.items()}
    exchanges = {rank: one.exchange for rank, one in fitness.items() if one.exchange is not None}
    who = "the only rank is" if len(fitness) == 1 else f"all {len(fitness)} ranks are"
    parts = [
        f"{what} {_spread(seconds)}" for what, seconds in (("product", products), ("exchange", exchanges)) if seconds
    ]
    return f"{who} fit: {', '.join(parts)}"


def _quickest(rank: int, measured: Sequence[Measured]) -> float | None:
    """An exchange lasts as long as the later of its two sees it last."""
    pairs = ((seconds, measured[peer].exchanges.get(rank)) for peer, seconds in measured[rank].exchanges.items())
    return min((max(a, b) for a, b in pairs if a is not None and b is not None), default=None)


def _slow(what: str, own: float, seconds: Sequence[float | None], slower_than: float, worth: float = 0.0) -> str:
    """Empty when it is not."""
    median = median_low(one for one in seconds if one is not None)
    if own <= slower_than * median or own - median <= worth:
        return ""
    return (
        f"its {what} took {own:.3g} s, the median of all ranks is {median:.3g} s "
        f"(faultTolerance.preflight.slowerThan is {slower_than:g})"
    )


def _spread(seconds: Mapping[int, float]) -> str:
    slowest = max(seconds, key=lambda rank: seconds[rank])
    return f"{median_low(seconds.values()):.3g} s (rank {slowest}, the slowest: {seconds[slowest]:.3g} s)"
