import pytest

from ringtrain.contract.output import prefix, split


@pytest.mark.parametrize("rank", [0, 12, 4095])
def test_what_a_rank_prints_is_known_by_its_prefix(rank: int) -> None:
    for text in ("round 1/2", "", " [rank 7] x"):
        assert split(prefix(rank) + text) == (rank, text)


@pytest.mark.parametrize(
    "line", ["", "text [rank 1] x", "[rank 1]", "[rank x] y", "[rank -1] y", "[rank ٣] y", f"[rank {'1' * 5000}] y"]
)
def test_other_lines_are_nobodys(line: str) -> None:
    assert split(line) == (None, line)
