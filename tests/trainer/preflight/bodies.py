"""What ranks do in the distributed tests of the pre-flight check."""

from ringtrain.preflight import exchange
from ringtrain.preflight.exchange import seconds_of_exchange
from ringtrain.preflight.pairs import peers
from trainer.comm.ranks import Link


def exchange_with_all(link: Link, rank: int, size: int, liar: int | None = None) -> list[tuple[int, bool]]:
    """(peer, whether the exchange came to its end with what was sent); `liar` sends what nobody knows."""
    group = link.form(rank, size)
    if rank == liar:
        sent = exchange.message
        exchange.message = lambda rank: sent(rank) + (rank == liar)
    found = []
    for peer in peers(size, 1, rank):
        group.barrier()
        if peer is not None:
            found.append((peer, seconds_of_exchange(group, peer, 60.0) is not None))
    group.all_gather_json(found)
    group.destroy()
    return found


def exchange_with_nobody(link: Link, rank: int, size: int, limit: float) -> bool:
    """Whether rank 0 is done although rank 1 never comes."""
    group = link.form(rank, size)
    given_up = rank == 1 or seconds_of_exchange(group, 1, limit) is None
    group.barrier()
    group.destroy()
    return given_up
