import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.comm.meter import LaneTraffic, LinkTraffic, Meter, RoundTraffic, ring_bytes, union_seconds


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def traffic(factor: int) -> LaneTraffic:
    intra = LinkTraffic(raw_bytes=2 * factor, sent_bytes=factor, codec_seconds=0, wire_seconds=0.5 * factor)
    inter = LinkTraffic(raw_bytes=40 * factor, sent_bytes=10 * factor, codec_seconds=factor, wire_seconds=3 * factor)
    return LaneTraffic(intra=intra, inter=inter)


NOTHING = LinkTraffic()


def test_a_round() -> None:
    clock = Clock()
    meter = Meter(clock)
    clock.now += 6
    with meter.exposed():
        clock.now += 2
    meter.summed(traffic(1), 101, 104)
    meter.summed(traffic(2), 103, 106)
    clock.now += 2
    assert meter.end_round() == RoundTraffic(
        intra=LinkTraffic(raw_bytes=6, sent_bytes=3, codec_seconds=0, wire_seconds=1.5),
        inter=LinkTraffic(raw_bytes=120, sent_bytes=30, codec_seconds=3, wire_seconds=9),
        communication_seconds=5,
        exposed_seconds=2,
        round_seconds=10,
    )
    clock.now += 3
    assert meter.end_round() == RoundTraffic(
        intra=NOTHING, inter=NOTHING, communication_seconds=0, exposed_seconds=0, round_seconds=3
    )


def test_a_broken_round_leaves_no_trace() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.summed(traffic(1), 0, 1)

    def wait() -> None:
        with meter.exposed():
            clock.now += 5
            raise RuntimeError

    with pytest.raises(RuntimeError):
        wait()
    meter.begin_round()
    clock.now += 1
    ended = meter.end_round()
    assert ended.share == ended.communication_seconds == 0
    assert ended.inter == NOTHING


def test_share() -> None:
    ended = RoundTraffic(intra=NOTHING, inter=NOTHING, communication_seconds=4, exposed_seconds=2, round_seconds=8)
    assert ended.share == 0.25


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: (min(pair), max(pair)))))
def test_union_is_the_number_of_covered_seconds(intervals: list[tuple[int, int]]) -> None:
    covered = {second for begin, end in intervals for second in range(begin, end)}
    assert union_seconds(intervals) == len(covered)


def test_a_round_without_time_has_no_share() -> None:
    assert Meter(Clock()).end_round().share == 0


@pytest.mark.parametrize(("size", "sent"), [(1, 0), (2, 1000), (4, 1500)])
def test_ring_bytes(size: int, sent: int) -> None:
    assert ring_bytes(1000, size) == sent
