import pytest

from operator_.plan.builders import job, spec_with, status
from ringtrain_operator.api.spec import CONTROLLER
from ringtrain_operator.api.validation import InvalidSpec
from ringtrain_operator.plan.acceptance import accept, is_ours
from ringtrain_operator.plan.fixed import started_with


def test_a_valid_spec_is_typed() -> None:
    assert accept(job()).replicas == 3


def test_what_the_validation_refuses_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="replicas"):
        accept(job(spec_with(replicas=0)))


def test_what_is_fixed_is_refused() -> None:
    started = status(0, 0, 0, started_with=started_with(accept(job())))
    assert accept(job(spec_with(replicas=5), started)).replicas == 5
    with pytest.raises(InvalidSpec, match=r'spec\.device: cannot change from "cpu" to "cuda" while the job has pods'):
        accept(job(spec_with(device="cuda"), started))


def test_fields_that_a_later_release_dropped_do_not_stop_a_job_that_has_started() -> None:
    old = spec_with(forgotten=1, faultTolerance={"maxRestarts": 7, "patience": {"seconds": 3}})
    with pytest.raises(InvalidSpec, match=r"spec\.forgotten: unknown field"):
        accept(job(old))
    started = status(0, 0, 0, started_with=started_with(accept(job())))
    assert accept(job(old, started)).fault_tolerance.max_restarts == 7
    with pytest.raises(InvalidSpec, match=r"spec\.replicas"):
        accept(job(old | {"replicas": 0}, started))


@pytest.mark.parametrize(("manager", "ours"), [(None, True), (CONTROLLER, True), ("kueue.x-k8s.io/multikueue", False)])
def test_a_job_has_one_manager(manager: str | None, ours: bool) -> None:
    assert is_ours(job(spec_with(managedBy=manager))) is ours
    assert is_ours(job())
