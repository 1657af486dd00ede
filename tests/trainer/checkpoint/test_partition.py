import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.checkpoint.partition import partition

sizes = st.dictionaries(st.text(), st.integers(0, 10**9), max_size=50)


@given(sizes, st.integers(1, 20))
def test_every_name_lies_in_one_part(sizes: dict[str, int], parts: int) -> None:
    division = partition(sizes, parts)
    assert len(division) == parts
    assert sorted(name for part in division for name in part) == sorted(sizes)


@given(sizes, st.integers(1, 20))
def test_parts_differ_by_one_tensor_at_most(sizes: dict[str, int], parts: int) -> None:
    loads = [sum(sizes[name] for name in part) for part in partition(sizes, parts)]
    assert max(loads) - min(loads) <= max(sizes.values(), default=0)


@given(sizes, st.integers(1, 20))
def test_order_of_names_does_not_matter(sizes: dict[str, int], parts: int) -> None:
    assert partition(sizes, parts) == partition(dict(reversed(sizes.items())), parts)


def test_no_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="0 parts"):
        partition({"a": 1}, 0)
