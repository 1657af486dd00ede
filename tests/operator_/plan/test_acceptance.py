from typing import Any

import pytest

from operator_.plan.builders import SPEC, job, spec_with, status
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


def without_image() -> dict[str, Any]:
    return {name: value for name, value in SPEC.items() if name != "image"}


def test_defaults_stand_in_for_what_the_job_does_not_say() -> None:
    defaults = {"image": "default:1", "faultTolerance": {"maxRestarts": 99, "recovery": "Exact"}}
    accepted = accept(job(without_image(), defaults=defaults))
    assert accepted.image == "default:1"
    assert (accepted.fault_tolerance.max_restarts, accepted.fault_tolerance.recovery) == (2, "Exact")
    assert accept(job(defaults=defaults)).image == "trainer:1"


def test_a_job_without_an_image_hears_of_both_ways() -> None:
    with pytest.raises(InvalidSpec) as caught:
        accept(job(without_image()))
    (error,) = caught.value.errors
    assert error.startswith("spec.image: is required: name one here, or have an administrator name one for all jobs")
    assert "jobDefaults" in error


def test_who_is_refused_hears_of_the_defaults() -> None:
    defaults = {"resources": {"limits": {"memory": "1Gi"}}}
    with pytest.raises(InvalidSpec) as caught:
        accept(job(spec_with(resources={"requests": {"memory": "2Gi"}}), defaults=defaults))
    refused, told = caught.value.errors
    assert refused.startswith("spec.resources.requests.memory: 2Gi is more than the limit 1Gi")
    assert told.startswith("spec: administrators' defaults were added, which the job's own fields override: ")
    assert told.endswith('{"resources": {"limits": {"memory": "1Gi"}}}')


def test_a_job_that_has_started_is_judged_with_the_defaults_that_it_began_with() -> None:
    begun = {"started_with": started_with(accept(job())), "inherited": '{"shmSize":"1Gi"}'}
    accepted = accept(job(status=status(0, 0, 0, **begun), defaults={"shmSize": "3Gi", "procsPerReplica": 1}))
    assert accepted.shm_size == "1Gi"


@pytest.mark.parametrize(("manager", "ours"), [(None, True), (CONTROLLER, True), ("kueue.x-k8s.io/multikueue", False)])
def test_a_job_has_one_manager(manager: str | None, ours: bool) -> None:
    assert is_ours(job(spec_with(managedBy=manager))) is ours
    assert is_ours(job())
