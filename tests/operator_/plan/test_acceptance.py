import pytest

from operator_.plan.builders import job, spec_with, status
from ringtrain_operator.api.validation import InvalidSpec
from ringtrain_operator.plan.acceptance import accept


def test_a_valid_spec_is_typed() -> None:
    assert accept(job()).replicas == 3


def test_what_the_validation_refuses_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="replicas"):
        accept(job(spec_with(replicas=0)))


def test_the_size_may_change_until_the_job_has_members() -> None:
    assert accept(job(spec_with(replicas=5))).replicas == 5
    with pytest.raises(InvalidSpec, match=r"spec\.replicas: cannot change from 3 to 5 once the job has started"):
        accept(job(spec_with(replicas=5), status(0, 0, 0)))
