import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ringtrain.comm.buckets import ParameterInfo, digest, layout, parameter_infos

PARAMETERS = st.lists(
    st.tuples(st.integers(1, 200), st.sampled_from([torch.float32, torch.bfloat16])), max_size=20
).map(lambda rows: [ParameterInfo(f"p{index}", *row) for index, row in enumerate(rows)])


@settings(deadline=None)
@given(PARAMETERS, st.integers(1, 600))
def test_every_gradient_has_one_place(parameters: list[ParameterInfo], bucket_bytes: int) -> None:
    buckets = layout(parameters, bucket_bytes)
    slices = [part for bucket in buckets for part in bucket.slices]
    assert sorted(part.name for part in slices) == sorted(parameter.name for parameter in parameters)
    known = {parameter.name: parameter for parameter in parameters}
    for bucket in buckets:
        offset = 0
        for part in bucket.slices:
            assert part.offset == offset
            assert (part.numel, bucket.dtype) == (known[part.name].numel, known[part.name].dtype)
            offset += part.numel
        assert bucket.numel == offset
        assert bucket.numel * bucket.dtype.itemsize <= bucket_bytes or len(bucket.slices) == 1


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
@given(PARAMETERS, PARAMETERS, st.integers(1, 600), st.integers(1, 600))
def test_a_digest_names_one_layout(
    first: list[ParameterInfo], second: list[ParameterInfo], first_bytes: int, second_bytes: int
) -> None:
    one, other = layout(first, first_bytes), layout(second, second_bytes)
    assert (digest(one) == digest(other)) == (one == other)


def test_layout_and_digest_are_the_ones_of_former_releases() -> None:
    parameters = [
        ParameterInfo("a", 10, torch.float32),
        ParameterInfo("b", 4, torch.float32),
        ParameterInfo("c", 300, torch.float32),
        ParameterInfo("d", 1, torch.bfloat16),
        ParameterInfo("e", 5, torch.float32),
    ]
    buckets = layout(parameters, 64)
    assert [[part.name for part in bucket.slices] for bucket in buckets] == [["e"], ["d"], ["c"], ["b", "a"]]
    assert digest(buckets) == "c23c7172e479e70dc25494e499cc8938"


def test_tied_and_frozen_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model[2].bias.requires_grad_(False)
    assert [info.name for info in parameter_infos(model)] == ["0.weight", "2.weight"]


def test_a_bucket_has_a_size() -> None:
    with pytest.raises(ValueError, match="bucketMegabytes"):
        layout([], 0)
