import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ringtrain.comm.buckets import ALIGNMENT, TAIL, ParameterInfo, digest, layout, parameter_infos

PARAMETERS = st.lists(
    st.tuples(
        st.sampled_from([(1,), (7,), (200,), (10, 20), (40, 50), (2, 3, 400)]),
        st.sampled_from([torch.float32, torch.bfloat16]),
    ),
    max_size=20,
).map(lambda rows: [ParameterInfo(f"p{index}", *row) for index, row in enumerate(rows)])


@settings(deadline=None)
@given(PARAMETERS, st.integers(1, 600))
def test_every_gradient_has_one_place(parameters: list[ParameterInfo], bucket_bytes: int) -> None:
    buckets = layout(parameters, bucket_bytes)
    slices = [part for bucket in buckets for part in bucket.slices]
    assert sorted(part.name for part in slices) == sorted(parameter.name for parameter in parameters)
    known = {parameter.name: parameter for parameter in parameters}
    for bucket in buckets:
        covered, offset = list(bucket.gaps), 0
        for part in bucket.slices:
            assert offset <= part.offset < offset + ALIGNMENT
            assert bucket.exact or part.offset % ALIGNMENT == 0
            assert not bucket.exact or part.offset == offset
            parameter = known[part.name]
            assert (part.numel, bucket.dtype) == (parameter.numel, parameter.dtype)
            assert bucket.exact == (len(parameter.shape) == 1 or parameter.numel < 1024)
            covered.append((part.offset, part.offset + part.numel))
            offset = part.offset + part.numel
        assert bucket.numel == offset
        ends = [0, *(end for _, end in sorted(covered))]
        assert ends == [*(begin for begin, _ in sorted(covered)), offset]
        payload = sum(part.numel for part in bucket.slices) * bucket.dtype.itemsize
        assert payload <= bucket_bytes or len(bucket.slices) == 1


@settings(deadline=None)
@given(PARAMETERS, st.integers(1, 600))
def test_buckets_follow_the_backward_pass(parameters: list[ParameterInfo], bucket_bytes: int) -> None:
    place = {parameter.name: index for index, parameter in enumerate(reversed(parameters))}
    buckets = layout(parameters, bucket_bytes)
    for bucket in buckets:
        places = [place[part.name] for part in bucket.slices]
        assert places == sorted(places)
    ends = [place[bucket.slices[-1].name] for bucket in buckets]
    assert ends == sorted(ends)


@settings(deadline=None)
@given(PARAMETERS, st.integers(1, 60000))
def test_what_is_completed_last_is_small(parameters: list[ParameterInfo], bucket_bytes: int) -> None:
    last = {(bucket.dtype, bucket.exact): bucket for bucket in layout(parameters, bucket_bytes)}
    for bucket in last.values():
        payload = sum(part.numel for part in bucket.slices) * bucket.dtype.itemsize
        assert payload <= bucket_bytes / TAIL or len(bucket.slices) == 1


@settings(deadline=None)
@given(PARAMETERS, PARAMETERS, st.integers(1, 600), st.integers(1, 600))
def test_a_digest_names_one_layout(
    first: list[ParameterInfo], second: list[ParameterInfo], first_bytes: int, second_bytes: int
) -> None:
    one, other = layout(first, first_bytes), layout(second, second_bytes)
    assert (digest(one) == digest(other)) == (one == other)


def test_layout_and_digest_are_the_ones_of_former_releases() -> None:
    parameters = [
        ParameterInfo("a", (10,), torch.float32),
        ParameterInfo("b", (2, 2), torch.float32),
        ParameterInfo("c", (30, 50), torch.float32),
        ParameterInfo("d", (1,), torch.bfloat16),
        ParameterInfo("e", (5,), torch.float32),
    ]
    buckets = layout(parameters, 64)
    assert [[part.name for part in bucket.slices] for bucket in buckets] == [["d"], ["c"], ["e", "b"], ["a"]]
    assert [bucket.exact for bucket in buckets] == [True, False, True, True]
    assert digest(buckets) == "0f3d4d6f8708a98c31c3a1bd1e3d55a8"


def test_a_shard_takes_its_rows_and_is_compressed_if_the_whole_is() -> None:
    matrix, small = (ParameterInfo(name, (rows, 64), torch.float32, 2) for name, rows in (("m", 16), ("s", 15)))
    buckets = layout([matrix, small], 1 << 20)
    assert {part.name: (part.numel, bucket.exact) for bucket in buckets for part in bucket.slices} == {
        "m": (128, False),
        "s": (128, True),
    }


def test_tied_and_frozen_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model[2].bias.requires_grad_(False)
    assert [info.name for info in parameter_infos(model)] == ["0.weight", "2.weight"]


def test_a_bucket_has_a_size() -> None:
    with pytest.raises(ValueError, match="bucketMiB"):
        layout([], 0)
