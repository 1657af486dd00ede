import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain_operator.advisor.formats import BF16, NONE, int4, zfp
from ringtrain_operator.advisor.layout import Bucket
from ringtrain_operator.advisor.model import FRAMING, LOCAL_LATENCY, Hardware, Setting, noise, predict

MILLION = 1 << 20
FAST = Hardware(link_bits=1e15, latency=0, inside_bytes=1e15, codec_bytes=1e15)


def setting(**changes: Any) -> Setting:
    """A link alone costs time: 10 buckets of a million values."""
    hardware = {name: changes.pop(name) for name in list(changes) if name in Hardware.__dataclass_fields__}
    plain: dict[str, Any] = {
        "buckets": [Bucket(MILLION)] * 10, "machines": 4, "processes": 1, "algorithm": "direct", "format": NONE,
        "hardware": dataclasses.replace(FAST, **hardware), "compute_seconds": 3.0,
    }  # fmt: skip
    return Setting(**(plain | changes))


SETTINGS = st.builds(
    setting,
    buckets=st.lists(st.builds(Bucket, st.integers(1, 30_000_000), st.booleans()), min_size=1, max_size=6),
    machines=st.integers(1, 600),
    processes=st.integers(1, 9),
    algorithm=st.sampled_from(["ring", "direct"]),
    format=st.sampled_from([NONE, BF16, zfp(4), int4(32)]),
    compute_seconds=st.floats(0.001, 10),
    accumulation=st.integers(1, 4),
    overlap=st.booleans(),
    link_bits=st.floats(1e7, 1e12),
    latency=st.floats(0, 1e-3),
    inside_bytes=st.floats(1e9, 1e12),
    codec_bytes=st.floats(1e8, 1e11),
    cores=st.integers(1, 4),
)


def test_a_ring_sends_twice_the_others_shares() -> None:
    found = predict(setting(machines=4))
    # 2 (M - 1) / M of all bytes; each of 10 segments has a header of 8 bytes in each of 6 messages.
    assert found.sent_bytes == 2 * 3 * 10 * MILLION + 10 * 6 * 8
    assert predict(setting(machines=4, processes=8)).sent_bytes == pytest.approx(found.sent_bytes, rel=1e-3)
    assert predict(setting(machines=4, format=zfp(4))).sent_bytes == pytest.approx(found.sent_bytes / 8, rel=1e-3)


def test_a_link_that_hides_behind_the_backward_pass_leaves_its_last_bucket() -> None:
    # Plain values are copied too, which takes no time to speak of.
    # The backward pass takes 2 s, a bucket's link 0.1 s: 10 of them hide but for the last.
    bits = 8 * FRAMING * predict(setting()).sent_bytes / 10 / 0.1
    found = predict(setting(link_bits=bits))
    assert found.link_seconds == pytest.approx(1.0)
    assert found.exposed_seconds == pytest.approx(0.1, rel=0.02)
    assert found.round_seconds == pytest.approx(3.1, rel=0.02)
    assert found.exposed_share == pytest.approx(0.1 / 3.1, rel=0.02)
    assert found.limit == "link"


def test_a_link_that_cannot_hide_begins_with_the_first_bucket() -> None:
    # 10 buckets of 0.5 s from 0.2 s on, when the first is ready; the backward pass ends at 2 s.
    bits = 8 * FRAMING * predict(setting()).sent_bytes / 10 / 0.5
    assert predict(setting(link_bits=bits)).exposed_seconds == pytest.approx(0.2 + 5.0 - 2.0, rel=0.002)
    assert predict(setting(link_bits=bits, overlap=False)).exposed_seconds == pytest.approx(5.0, rel=0.002)
    # Of two micro-batches only the last one's backward pass, of 1 s, hides it.
    assert predict(setting(link_bits=bits, accumulation=2)).exposed_seconds == pytest.approx(0.1 + 5.0 - 1.0, rel=0.002)


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 2), (9, 2)])
def test_two_lanes_encode_on_two_cores(cores: int, threads: int) -> None:
    found = predict(setting(format=zfp(4), codec_bytes=1e7, cores=cores, compute_seconds=0))
    # Encoded once, decoded 1 + (M - 1) / M times.
    assert found.codec_seconds == pytest.approx(4 * 10 * MILLION * 2.75 / 1e7)
    assert found.exposed_seconds == pytest.approx(found.codec_seconds / threads, rel=0.15)
    assert found.limit == "codec"


def test_codec_and_link_of_two_lanes_overlap() -> None:
    sent = predict(setting(format=zfp(4))).sent_bytes
    plain = setting(format=zfp(4), link_bits=8 * FRAMING * sent, codec_bytes=4 * 10 * MILLION * 2.75, compute_seconds=0)
    found = predict(plain)
    assert found.link_seconds == pytest.approx(1.0)
    assert found.codec_seconds == pytest.approx(1.0)
    # One second of each beside the other; a single bucket has nothing beside it.
    assert found.exposed_seconds == pytest.approx(1.1, rel=0.01)


def test_a_ring_decodes_while_it_gathers() -> None:
    slow = {"format": zfp(4), "machines": 8, "link_bits": 1e8, "codec_bytes": 1e8}
    assert predict(setting(**slow, algorithm="ring")).exposed_seconds < predict(setting(**slow)).exposed_seconds


@pytest.mark.parametrize(("algorithm", "hops"), [("ring", 2 * 63), ("direct", 64)])
def test_hops_of_a_segment(algorithm: str, hops: int) -> None:
    found = predict(setting(machines=64, algorithm=algorithm, latency=1e-3))
    assert found.latency_seconds == pytest.approx(10 * hops * 1e-3)
    # A large bucket is cut into messages of 2**18 values.
    large = setting(machines=64, algorithm=algorithm, latency=1e-3, buckets=[Bucket(64 * (1 << 18) * 3)])
    assert predict(large).latency_seconds == pytest.approx(3 * hops * 1e-3)


def test_every_round_sums_two_numbers_over_all_ranks() -> None:
    found = predict(setting(buckets=[Bucket(1)], machines=16, processes=4, latency=1e-3))
    assert found.exposed_seconds == pytest.approx(2 * 63 / 64 * (16 * 1e-3 + 48 * LOCAL_LATENCY))
    assert found.limit == "latency"


def test_inside_a_machine_values_go_in_full() -> None:
    found = predict(setting(machines=1, processes=4, inside_bytes=1e6, host_bytes=1e6))
    assert found.sent_bytes == 0
    assert found.codec_seconds == found.latency_seconds == found.link_seconds == 0
    assert found.inside_seconds == pytest.approx((2 * 3 / 4 + 2 / 4) * 4 * 10 * MILLION / 1e6)
    assert found.limit == "inside"


def test_one_process_that_shares_nothing() -> None:
    found = predict(setting(machines=1))
    assert (found.exposed_seconds, found.round_seconds, found.limit) == (0, 3.0, "compute")


def test_exact_buckets_are_never_compressed() -> None:
    exact = [Bucket(MILLION, exact=True)]
    assert predict(setting(buckets=exact, format=zfp(4))).sent_bytes == predict(setting(buckets=exact)).sent_bytes


@pytest.mark.parametrize(
    ("algorithm", "machines", "growth"),
    [("ring", 2, 1.5), ("direct", 2, 1.5), ("ring", 63, 32), ("direct", 64, 2 - 1 / 64)],
)
def test_noise(algorithm: Any, machines: int, growth: float) -> None:
    assert noise(zfp(4), algorithm, machines) == pytest.approx(zfp(4).error * math.sqrt(growth))
    assert noise(NONE, algorithm, machines) == noise(zfp(4), algorithm, 1) == 0


@given(SETTINGS)
def test_times_are_possible(setting: Setting) -> None:
    found = predict(setting)
    assert 0 <= found.exposed_share < 1
    assert found.round_seconds >= setting.compute_seconds
    # It can neither be faster than its link alone, nor slower than one thing after the other.
    backward = setting.compute_seconds * 2 / 3
    assert found.round_seconds >= found.link_seconds + setting.compute_seconds - backward - 1e-9
    parts = found.link_seconds + found.codec_seconds + found.latency_seconds + found.inside_seconds
    ranks = setting.machines * setting.processes
    totals = 2 * ranks * max(setting.hardware.latency, LOCAL_LATENCY)
    assert found.round_seconds <= (setting.compute_seconds + parts + totals) * (1 + 1e-9)


@given(SETTINGS, st.sampled_from(["link_bits", "inside_bytes", "codec_bytes"]), st.floats(1, 100))
def test_better_hardware_is_never_slower(setting: Setting, name: str, factor: float) -> None:
    better = dataclasses.replace(
        setting, hardware=dataclasses.replace(setting.hardware, **{name: getattr(setting.hardware, name) * factor})
    )
    assert predict(better).round_seconds <= predict(setting).round_seconds * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"machines": 0}, "machines is 0"),
        ({"processes": 0}, "processes is 0"),
        ({"accumulation": 0}, "accumulation is 0"),
        ({"link_bits": 0}, "link_bits is 0"),
        ({"codec_bytes": math.nan}, "codec_bytes is nan"),
        ({"cores": 0}, "cores is 0"),
        ({"compute_seconds": -1}, "compute_seconds and latency"),
        ({"latency": -1}, "compute_seconds and latency"),
    ],
)
def test_what_cannot_be(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        setting(**changes)
