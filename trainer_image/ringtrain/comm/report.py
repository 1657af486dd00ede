"""From what was measured to what is reported."""

from dataclasses import asdict

from ringtrain.comm.meter import RoundTraffic
from ringtrain.contract.report import CommunicationTotals, LinkTotals


class TrafficTotals:
    """Adds up rounds, all of one codec: they start over when the warm-up ends, or the ratio of bytes would be neither
    codec's."""

    def __init__(self) -> None:
        self._codec = ""
        self._rounds = 0
        self._traffic: RoundTraffic | None = None

    def add(self, codec: str, traffic: RoundTraffic) -> CommunicationTotals:
        """`codec` is what the round sent; the totals with it."""
        if codec != self._codec:
            self._codec, self._rounds, self._traffic = codec, 0, None
        self._rounds += 1
        self._traffic = total = traffic if self._traffic is None else self._traffic + traffic
        return CommunicationTotals(
            codec=codec,
            rounds=self._rounds,
            round_seconds=total.round_seconds,
            communication_seconds=total.communication_seconds,
            exposed_seconds=total.exposed_seconds,
            intra=LinkTotals(**asdict(total.intra)),
            inter=LinkTotals(**asdict(total.inter)),
        )
