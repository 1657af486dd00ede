import dataclasses
from typing import Any

import pytest

from ringtrain_operator.advisor.advice import CHOICES, MARGIN, Choice, Workload, advise, extrapolate
from ringtrain_operator.advisor.formats import int4, zfp
from ringtrain_operator.advisor.layout import typical
from ringtrain_operator.advisor.model import Hardware

THIRD = 1 / 3


def workload(**changes: Any) -> Workload:
    """1 B parameters over 10 Gbit/s, with a codec that costs next to nothing."""
    hardware = {name: changes.pop(name) for name in list(changes) if name in Hardware.__dataclass_fields__}
    plain = Workload(
        parameters=typical(10**9),
        bucket_mebibytes=4.0,
        processes=8,
        hardware=dataclasses.replace(Hardware(link_bits=1e10, codec_bytes=1e12), **hardware),
        compute_seconds=0.5,
    )
    return dataclasses.replace(plain, **changes)


def test_a_fast_codec_pays_off_on_a_slow_link() -> None:
    advice = advise(workload(), 8, THIRD)
    assert advice.pays
    assert advice.best.choice.format.bits <= 4.5
    assert advice.best.seconds < advice.plain.seconds / 1.5
    assert advice.plain.choice.format.name == "bf16"
    assert advice.sentence.startswith("Use codec ")
    assert f"algorithm {advice.best.choice.algorithm}: a round takes " in advice.sentence
    assert f"({advice.plain.choice})" in advice.sentence


def test_a_slow_codec_does_not() -> None:
    advice = advise(workload(codec_bytes=5e7), 8, THIRD)
    assert not advice.pays
    assert advice.best.choice.format.name == "bf16"
    assert advice.sentence.startswith("No lossy codec pays off: with codec bf16, algorithm ")
    assert any("is the limit of all lossy rows" in reason and "--codec-speed" in reason for reason in advice.reasons)


def test_on_a_fast_link_nothing_is_given_up() -> None:
    advice = advise(workload(link_bits=4e12), 8, THIRD)
    assert advice.best.choice.format.name == "none"
    assert not advice.pays


def test_one_machine_sends_nothing() -> None:
    advice = advise(workload(), 1, THIRD)
    assert not advice.pays
    assert advice.sentence.startswith("One machine sends nothing to others")
    assert not advice.reasons


@pytest.mark.parametrize("machines", [2, 8, 64, 512])
def test_what_is_advised_is_quiet_and_nearly_the_fastest(machines: int) -> None:
    advice = advise(workload(latency=1e-6), machines, THIRD)
    assert advice.best.prediction.error <= THIRD
    quiet = [row for row in advice.rows if row.prediction.error <= THIRD]
    assert advice.best.seconds * (1 - MARGIN) <= min(row.seconds for row in quiet)
    for row in quiet:
        if row.prediction.error < advice.best.prediction.error:
            assert row.seconds * (1 - MARGIN) > min(other.seconds for other in quiet)


def test_noise_rules_out_a_ring_of_many_machines() -> None:
    # Slow to encode, so that a ring, which decodes while it gathers, is faster.
    slow = workload(codec_bytes=1e9, latency=1e-6)
    advice = advise(slow, 64, THIRD)
    ring, direct = (Choice(zfp(4), algorithm) for algorithm in ("ring", "direct"))
    by_choice = {row.choice: row for row in advice.rows}
    assert by_choice[ring].seconds < by_choice[direct].seconds
    assert by_choice[ring].prediction.error > 1
    assert advice.best.choice != ring
    reason = next(reason for reason in advice.reasons if "noise above 33 %" in reason)
    assert "zfp-4 ring (128 %)" in reason
    assert "in a ring noise grows with the machines" in reason
    anything = advise(slow, 64, 100.0)
    assert anything.best.choice.algorithm == "ring"
    assert not any("noise above" in reason for reason in anything.reasons)


def test_larger_buckets_where_latency_counts() -> None:
    small = workload(bucket_mebibytes=0.1, latency=1e-3, parameters=typical(10**8) * 4)
    advice = advise(small, 8, THIRD)
    reason = next(reason for reason in advice.reasons if reason.startswith("with bucketMiB "))
    bucket = float(reason.split()[2])
    better = dataclasses.replace(small, bucket_mebibytes=bucket).predict(8, advice.best.choice)
    assert better.round_seconds < advice.best.seconds * (1 - MARGIN)
    assert not any(
        "bucketMiB" in reason
        for reason in advise(dataclasses.replace(small, bucket_mebibytes=bucket), 8, THIRD).reasons
    )


def test_the_jobs_own_choice_is_among_the_rows() -> None:
    own = Choice(int4(32, rotate=True), "ring")
    assert own not in CHOICES
    assert own in [row.choice for row in advise(workload(), 4, THIRD, own).rows]
    assert len(advise(workload(), 4, THIRD, CHOICES[3]).rows) == len(CHOICES)


@pytest.mark.parametrize(
    ("processes", "expected"),
    [(8, [(8, 1), (64, 8), (512, 64), (4096, 512)]), (1, [(8, 8), (64, 64), (512, 512), (4096, 4096)]),
     (3, [(9, 3), (63, 21), (513, 171), (4095, 1365)]), (16, [(8, 1), (64, 4), (512, 32), (4096, 256)])],
)  # fmt: skip
def test_growing(processes: int, expected: list[tuple[int, int]]) -> None:
    found = extrapolate(workload(processes=processes), THIRD)
    assert [(gpus, advice.machines) for gpus, advice in found] == expected
