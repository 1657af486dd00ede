from hypothesis import given
from hypothesis import strategies as st

from ringtrain.comm.segments import PART_VALUES, Cut

CUTS = st.builds(Cut, st.integers(1, 9), st.integers(1, 8), st.sampled_from([1, 32, 64, 128]))


@given(CUTS, st.integers(0, 30_000_000))
def test_segments_cover_the_bucket(cut: Cut, numel: int) -> None:
    padded = cut.padded(numel)
    assert numel <= padded < numel + cut.unit
    segments = list(cut.segments(padded))
    assert sum(segment.numel for segment in segments) == padded
    at = 0
    for segment in segments:
        assert segment.offset == at
        assert segment.numel > 0
        assert segment.numel % cut.unit == 0
        at += segment.numel
    parts = [segment.numel // (cut.machines * cut.processes) for segment in segments]
    assert all(part <= PART_VALUES + cut.block for part in parts)
    assert not parts or max(parts) - min(parts) <= cut.block
