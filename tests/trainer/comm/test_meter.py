from contextlib import AbstractContextManager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.comm.meter import LaneTraffic, LinkTraffic, Meter, RoundTraffic, ring_bytes


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
    with meter.summing():
        clock.now += 1
        meter.summed(traffic(1))
    with meter.summing(), meter.summing():
        clock.now += 1
        meter.summed(traffic(2))
    assert meter.end_round() == RoundTraffic(
        intra=LinkTraffic(raw_bytes=6, sent_bytes=3, codec_seconds=0, wire_seconds=1.5),
        inter=LinkTraffic(raw_bytes=120, sent_bytes=30, codec_seconds=3, wire_seconds=9),
        communication_seconds=2,
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
    with meter.summing():
        clock.now += 1
        meter.summed(traffic(1))

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
def test_communication_is_the_number_of_covered_seconds(intervals: list[tuple[int, int]]) -> None:
    """Of all-reduces that begin and end at any times, in any of two rounds."""
    clock = Clock()
    meter = Meter(clock)
    start, halves = clock.now, []
    running: list[tuple[int, AbstractContextManager[None]]] = []
    for second in range(31):
        clock.now = start + second
        if second == 15:
            halves.append(meter.end_round())
        for end, ending in [each for each in running if each[0] == second]:
            ending.__exit__(None, None, None)
            running.remove((end, ending))
        for _, end in (each for each in intervals if each[0] == second and each[1] > second):
            running.append((end, meter.summing()))
            running[-1][1].__enter__()
    halves.append(meter.end_round())
    covered = {second for begin, end in intervals for second in range(begin, end)}
    assert halves[0].communication_seconds == len([second for second in covered if second < 15])
    assert halves[1].communication_seconds == len([second for second in covered if second >= 15])


def test_an_all_reduce_that_failed_runs_no_more() -> None:
    clock = Clock()
    meter = Meter(clock)

    def fail() -> None:
        with meter.summing():
            clock.now += 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    clock.now += 5
    assert meter.end_round().communication_seconds == 1


def test_a_round_without_time_has_no_share() -> None:
    assert Meter(Clock()).end_round().share == 0


@pytest.mark.parametrize(("size", "sent"), [(1, 0), (2, 1000), (4, 1500)])
def test_ring_bytes(size: int, sent: int) -> None:
    assert ring_bytes(1000, size) == sent
