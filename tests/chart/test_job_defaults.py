"""What the chart's jobDefaults tell the operator."""

import json
from pathlib import Path

import pytest
import yaml

from ringtrain_operator.api.defaultable import DEFAULTABLE
from ringtrain_operator.plan.defaults import JobDefaults
from ringtrain_operator.settings import Settings
from support.manifests import Render, only
from support.tools import CHART

pytestmark = pytest.mark.chart

VARIABLE = "RINGTRAIN_JOB_DEFAULTS"
GIVEN = {
    "cluster": {
        "image": "registry/trainer:1",
        "activeDeadlineSeconds": 10_000_000,
        "communication": {"codec": "zfp", "rate": 5, "overlap": False, "bucketMiB": 0.5},
        "checkpoint": {"volume": {"claimTemplate": {"storageClassName": "fast"}}},
        "template": {
            "metadata": {"annotations": {"note": "a \"word\" & <more>, in 'quotes'\nand ümlauts"}},
            "spec": {
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "containers": [{"name": "trainer", "env": [{"name": "WHERE", "value": "$(HOME) $$ $PATH $"}]}],
            },
        },
    },
    "namespaces": {"team-a": {"resources": {"limits": {"memory": "64Gi"}}}},
}


def told(render: Render, *args: str) -> dict[str, str]:
    """The operator's environment, as a kubelet makes it where no other variable is known."""
    (container,) = only(render(*args), "Deployment")["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"].replace("$$", "$") for each in container["env"]}


def test_the_operator_is_told_what_the_values_say(render: Render, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"jobDefaults": GIVEN}))
    (container,) = only(render("--values", str(values)), "Deployment")["spec"]["template"]["spec"]["containers"]
    (raw,) = (each["value"] for each in container["env"] if each["name"] == VARIABLE)
    assert "$(" not in raw.replace("$$", ""), "the kubelet would put in a variable's value"
    settings = Settings.from_env(told(render, "--values", str(values)))
    assert settings.job_defaults == JobDefaults(**GIVEN)  # type: ignore[arg-type]


def test_it_is_told_nothing_where_there_are_none(render: Render) -> None:
    assert VARIABLE not in told(render)


def test_fields_of_the_schema_are_those_that_can_have_a_default() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert list(schema["definitions"]["jobDefaults"]["properties"]) == list(DEFAULTABLE)
