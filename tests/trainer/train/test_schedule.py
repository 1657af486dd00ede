import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.trainer_config import OptimizerConfig
from ringtrain.train.schedule import learning_rate

CONFIG = OptimizerConfig(learning_rate=1.0, minimum_learning_rate=0.1, warmup_rounds=4)


def test_warm_up_then_cosine() -> None:
    rates = [learning_rate(CONFIG, round, 10) for round in range(1, 11)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[6] == pytest.approx(0.55)  # halfway down
    assert rates[9] == pytest.approx(0.1)
    assert rates[3:] == sorted(rates[3:], reverse=True)


def test_no_warm_up() -> None:
    config = CONFIG.model_copy(update={"warmup_rounds": 0})
    assert learning_rate(config, 1, 1) == pytest.approx(0.1)
    assert learning_rate(config, 1, 100) == pytest.approx(1.0, abs=0.001)


@given(st.integers(0, 50), st.integers(1, 100), st.data())
def test_never_above_the_peak_or_at_zero(warmup: int, rounds: int, data: st.DataObject) -> None:
    config = CONFIG.model_copy(update={"warmup_rounds": warmup})
    round = data.draw(st.integers(1, rounds))
    assert 0 < learning_rate(config, round, rounds) <= 1.0
