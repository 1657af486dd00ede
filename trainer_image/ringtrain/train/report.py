"""From what was measured to what is reported."""

from dataclasses import asdict

from ringtrain.comm.meter import RoundTraffic
from ringtrain.contract.report import CommunicationTotals, LinkTotals


def communication_totals(codec: str, rounds: int, traffic: RoundTraffic) -> CommunicationTotals:
    """`traffic` is of so many rounds together."""
    return CommunicationTotals(
        codec=codec,
        rounds=rounds,
        round_seconds=traffic.round_seconds,
        communication_seconds=traffic.communication_seconds,
        exposed_seconds=traffic.exposed_seconds,
        intra=LinkTotals(**asdict(traffic.intra)),
        inter=LinkTotals(**asdict(traffic.inter)),
    )
