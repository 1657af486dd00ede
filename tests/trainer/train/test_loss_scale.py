from ringtrain.train.loss_scale import LossScale


def test_an_overflow_halves_the_scale_and_many_good_rounds_double_it() -> None:
    start = LossScale(scale=1024.0)
    assert start.after(finite=False) == LossScale(512.0)
    scaling = start
    for _ in range(1999):
        scaling = scaling.after(finite=True)
        assert scaling.scale == 1024.0
    assert scaling.after(finite=True) == LossScale(2048.0)
    assert scaling.after(finite=False) == LossScale(512.0)


def test_the_scale_has_bounds() -> None:
    assert LossScale(1.0).after(finite=False) == LossScale(1.0)
    assert LossScale(2.0**24, finite_rounds=1999).after(finite=True) == LossScale(2.0**24)
