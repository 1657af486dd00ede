"""Scatter-reduce and all-gather: every value is encoded twice, whatever the number of members."""

from torch import Tensor

from ringtrain.comm.collectives.message import Messages
from ringtrain.comm.transport.transport import Transport


def direct_all_reduce(values: Tensor, messages: Messages, transport: Transport) -> int:
    """Sums `values`, float32 of shape (size x n,), in place over all members. Returns the bytes that were sent.

    Member i gets everybody's i-th part, adds them up with its own, which was never encoded, and sends the sum to all
    (as in torch_cgx and ZeRO++). All members decode the same bytes and end with the same bits.
    """
    size, rank = transport.size, transport.rank
    parts = values.view(size, -1)
    numel = parts.shape[1]
    outgoing, incoming = messages.allocate(2 * size, numel).chunk(2)
    receive = incoming.view(-1)
    for peer in range(size):
        if peer != rank:
            messages.write(parts[peer], peer * numel, outgoing[peer])
    transport.all_to_all(outgoing.view(-1), receive).wait()
    for peer in range(size):
        if peer != rank:
            messages.read_add(incoming[peer], parts[rank])
    own = outgoing[rank]
    messages.write(parts[rank], rank * numel, own)
    transport.all_gather(own, receive).wait()
    for peer in range(size):
        messages.read(incoming[peer], parts[peer])
    return 2 * (size - 1) * len(own)
