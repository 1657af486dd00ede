import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain_operator.advisor.layout import Parameter, buckets, built_in, typical


@given(st.integers(1, 10**13))
def test_a_typical_model_has_its_parameters(parameters: int) -> None:
    found = typical(parameters)
    assert sum(parameter.values for parameter in found) == parameters
    assert all(parameter.values > 0 for parameter in found)


def test_a_typical_model_has_the_usual_proportions() -> None:
    found = typical(7_000_000_000)
    assert len(found) == 4 * 33
    square = found[1].values
    assert square == pytest.approx((33 * 128) ** 2, rel=0.02)
    assert [round(parameter.values / square) for parameter in found[:4]] == [3, 1, 4, 4]


def test_parameters_of_a_built_in_model() -> None:
    # GPT-2 small's count, with its vocabulary and context: 124,439,808.
    found = built_in(ModelConfig(size="base", context_length=1024), 50257)
    assert sum(parameter.values for parameter in found) == 124_439_808
    assert sum(parameter.values for parameter in found if parameter.exact) == 12 * 13 * 768 + 2 * 768


def test_buckets_follow_the_backward_pass() -> None:
    matrix, vector = Parameter(100_000, exact=False), Parameter(10, exact=True)
    found = buckets([Parameter(600_000, exact=False), vector, matrix, vector, matrix], 1.0)
    assert [(bucket.values, bucket.exact) for bucket in found] == [
        (100_096 + 100_000, False),
        (20, True),
        (600_000, False),
    ]


def test_compressed_parameters_begin_at_multiples_of_128() -> None:
    matrices = [Parameter(1100, exact=False), Parameter(1300, exact=False), Parameter(2000, exact=False)]
    assert [bucket.values for bucket in buckets(matrices, 1.0)] == [2048 + 1408 + 1100]
    assert [bucket.values for bucket in buckets([Parameter(5, exact=True)] * 3, 1.0)] == [15]
