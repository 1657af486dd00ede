import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.faults import Fault, FaultKind, parse_fault, parse_faults

NUMBERS = st.integers(0, 1000)
OTHERS = (FaultKind.EXIT, FaultKind.WRONG)
FAULTS = st.one_of(
    st.builds(Fault, st.sampled_from([kind for kind in FaultKind if kind not in OTHERS]), NUMBERS, NUMBERS, NUMBERS),
    st.builds(Fault, st.just(FaultKind.WRONG), NUMBERS, st.just(0), NUMBERS),
    st.builds(Fault, st.just(FaultKind.EXIT), NUMBERS, NUMBERS, NUMBERS, st.integers(0, 255)),
)


@given(FAULTS)
def test_faults_survive_the_round_trip(fault: Fault) -> None:
    assert parse_fault(str(fault)) == fault


@given(st.lists(FAULTS, max_size=4))
def test_lists_of_faults_survive_the_round_trip(faults: list[Fault]) -> None:
    assert parse_faults(";".join(map(str, faults))) == tuple(faults)


def test_the_epoch_is_the_first_unless_told() -> None:
    assert parse_fault("kill:rank=1,round=20") == Fault(FaultKind.KILL, rank=1, round=20, epoch=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("burn:rank=1,round=2", "unknown kind 'burn'"),
        ("kill:rank=1", "rank and round are required"),
        ("kill:rank=one,round=2", "'rank=one' is not"),
        ("kill:rank=1,round=2,day=3", "'day=3' is not"),
        ("kill", "rank and round are required"),
        ("wrong:rank=1,round=2", "set round=0"),
    ],
)
def test_what_is_no_fault_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_fault(text)
