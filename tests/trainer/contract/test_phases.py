import pytest

from ringtrain.contract.phases import Phase, PhaseTimeouts


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.DONE])
def test_waiting_has_no_limit(phase: Phase) -> None:
    assert PhaseTimeouts().limit(phase) is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in (Phase.WAITING, Phase.DONE)])
def test_every_other_phase_has_a_limit_of_its_own(phase: Phase) -> None:
    assert PhaseTimeouts.model_validate({phase.value: 7}).limit(phase) == 7


def test_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        PhaseTimeouts(training=0)
