from ringtrain.comm.meter import LinkTraffic, RoundTraffic
from ringtrain.comm.report import TrafficTotals


def traffic(sent: int) -> RoundTraffic:
    inter = LinkTraffic(raw_bytes=1000, sent_bytes=sent, codec_seconds=0.25, wire_seconds=0.5)
    return RoundTraffic(
        intra=LinkTraffic(), inter=inter, communication_seconds=1.0, exposed_seconds=0.5, round_seconds=2.0
    )


def test_totals_are_of_one_codec() -> None:
    totals = TrafficTotals()
    totals.add("bf16", traffic(500))
    warm_up = totals.add("bf16", traffic(500))
    assert (warm_up.codec, warm_up.rounds, warm_up.ratio) == ("bf16", 2, 2)
    totals.add("zfp-4", traffic(125))
    after = totals.add("zfp-4", traffic(125))
    assert (after.codec, after.rounds, after.ratio) == ("zfp-4", 2, 8)
    assert (after.inter.sent_bytes, after.round_seconds, after.share) == (250, 4, 0.25)
    assert after.inter.wire_seconds == 1
