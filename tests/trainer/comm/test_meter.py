import pytest

from ringtrain.comm.meter import Meter, RoundTraffic, ring_bytes


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_round() -> None:
    clock = Clock()
    meter = Meter(clock)
    clock.now += 2
    meter.started(raw_bytes=400, sent_bytes=50)
    clock.now += 1
    meter.started(raw_bytes=100, sent_bytes=20)
    clock.now += 1
    meter.ended()
    with meter.exposed():
        clock.now += 2
    meter.ended()
    clock.now += 2
    meter.started(raw_bytes=1, sent_bytes=1)
    clock.now += 1
    meter.ended()
    clock.now += 1

    assert meter.end_round() == RoundTraffic(
        raw_bytes=501, sent_bytes=71, communication_seconds=5, exposed_seconds=2, round_seconds=10
    )
    clock.now += 3
    assert meter.end_round() == RoundTraffic(
        raw_bytes=0, sent_bytes=0, communication_seconds=0, exposed_seconds=0, round_seconds=3
    )


def test_a_broken_round_leaves_no_trace() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.started(raw_bytes=400, sent_bytes=50)

    def wait() -> None:
        with meter.exposed():
            clock.now += 5
            raise RuntimeError

    with pytest.raises(RuntimeError):
        wait()
    meter.begin_round()
    clock.now += 1
    traffic = meter.end_round()
    assert traffic.share == traffic.raw_bytes == traffic.communication_seconds == 0


def test_share() -> None:
    traffic = RoundTraffic(raw_bytes=0, sent_bytes=0, communication_seconds=4, exposed_seconds=2, round_seconds=8)
    assert traffic.share == 0.25


def test_a_round_without_time_has_no_share() -> None:
    assert Meter(Clock()).end_round().share == 0


@pytest.mark.parametrize(("size", "sent"), [(1, 0), (2, 1000), (4, 1500)])
def test_ring_bytes(size: int, sent: int) -> None:
    assert ring_bytes(1000, size) == sent
