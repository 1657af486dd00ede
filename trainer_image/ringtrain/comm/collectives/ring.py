"""Ring all-reduce (Patarasuk and Yuan 2009, doi 10.1016/j.jpdc.2008.09.002) of encoded values."""

from torch import Tensor

from ringtrain.comm.collectives.message import Messages
from ringtrain.comm.transport.transport import Transport


def ring_all_reduce(values: Tensor, messages: Messages, transport: Transport) -> int:
    """Sums `values`, float32 of shape (size x n,), in place over all members. Returns the bytes that were sent.

    Each of size - 1 hops decodes, adds its own and encodes again, so noise grows with the number of members. Then the
    encoded sums are passed on as they are, and everybody decodes the same bytes: all members end with the same bits.
    Each part is encoded exactly once on each member, so one residual holds all that a member ever lost.
    """
    size, rank = transport.size, transport.rank
    parts = values.view(size, -1)
    numel = parts.shape[1]
    send, receive = messages.allocate(2, numel)
    for hop in range(size - 1):
        leaving, coming = (rank - hop) % size, (rank - hop - 1) % size
        messages.write(parts[leaving], leaving * numel, send)
        transport.shift(send, receive).wait()
        messages.read_add(receive, parts[coming])
    own = (rank + 1) % size
    messages.write(parts[own], own * numel, send)
    pending = transport.shift(send, receive)
    messages.read(send, parts[own])
    for hop in range(1, size):
        pending.wait()
        send, receive = receive, send
        if hop < size - 1:
            pending = transport.shift(send, receive)
        messages.read(send, parts[(own - hop) % size])
    return 2 * (size - 1) * len(send)
