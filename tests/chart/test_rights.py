"""The rights that the doctor looks for are those that the chart grants."""

import pytest

from ringtrain_operator.doctor.rights import LEASE, NODES, OPERATOR, Right
from support.manifests import Render

pytestmark = pytest.mark.chart

ROLES = {"ringtrain-system-rt-ringtrain": OPERATOR + NODES, "rt-ringtrain-lease": LEASE}


def test_the_doctor_knows_what_the_chart_grants(render: Render) -> None:
    granted = {
        role["metadata"]["name"]: {
            Right(group, resource, verb)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        for role in render()
        if role["kind"] in ("ClusterRole", "Role") and role["metadata"]["name"] in ROLES
    }
    assert granted == {name: set(rights) for name, rights in ROLES.items()}
