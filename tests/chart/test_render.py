"""Every combination of values renders to well-formed manifests; wrong values are refused in clear words."""

import itertools
from collections import Counter

import pytest
import yaml

from ringtrain_operator.api.spec import GROUP, KIND, PLURAL, VERSION
from ringtrain_operator.api.validation import parse
from support.manifests import Render, of_kind, only, walk
from support.tools import CHART, CommandError, command, tool

pytestmark = pytest.mark.chart

SWITCHES = [
    *(("crds.enabled=false",), ("crds.enabled=true",)),
    *(("rbac.create=false", "rbac.aggregate=false"), ("watchNamespaces={a,b}",)),
    *(("serviceAccount.create=false", "serviceAccount.name=mine"), ("metrics.service.enabled=false",)),
    *(("metrics.podMonitor.enabled=true", "metrics.podMonitor.labels.release=prometheus"),),
    *(("metrics.serviceMonitor.enabled=true",), ("metrics.prometheusRule.enabled=true",)),
    *(("metrics.dashboards.enabled=true", "metrics.dashboards.namespace=monitoring"),),
    *(("imagePullSecrets[0].name=key", "podLabels.team=a", "podAnnotations.note=b", "priorityClassName=high"),),
    *(("commonLabels.team=a", "deploymentAnnotations.note=b", "metrics.service.annotations.note=c"),),
    *(("nodeSelector.zone=a", "tolerations[0].operator=Exists", "affinity.nodeAffinity=null"),),
    *(("replicas=2", "leaderElection.leaseSeconds=30"), ("watchNodes=false",)),
    *(
        ("networkPolicy.enabled=false",),
        ("networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring",),
    ),
    *(("operator.extraEnv[0].name=HTTPS_PROXY", "operator.extraEnv[0].value=http://proxy"), ("resources=null",)),
    *(("operator.extraEnvFrom[0].secretRef.name=proxy",), ("jobDefaults.cluster.image=trainer:1",)),
]


def sets(*switches: tuple[str, ...]) -> list[str]:
    return [arg for switch in switches for value in switch for arg in ("--set", value)]


@pytest.mark.parametrize("switch", [(), *SWITCHES], ids=lambda switch: ",".join(switch) or "default")
def test_lints_and_renders(render: Render, switch: tuple[str, ...]) -> None:
    command(tool("helm"), "lint", "--strict", CHART, *sets(switch))
    manifests = render(*sets(switch))

    assert only(manifests, "Deployment")["spec"]["replicas"] == (2 if "replicas=2" in switch else 1)
    names = Counter((m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in manifests)
    assert set(names.values()) == {1}


@pytest.mark.parametrize("pair", list(itertools.combinations(SWITCHES[1:], 2)), ids=str)
def test_pairs_of_switches_render(render: Render, pair: tuple[tuple[str, ...], ...]) -> None:
    assert of_kind(render(*sets(*pair)), "Deployment")


def test_all_objects_carry_the_common_labels(render: Render) -> None:
    monitoring = ("podMonitor", "serviceMonitor", "prometheusRule", "dashboards")
    switches = ",".join(f"metrics.{each}.enabled=true" for each in monitoring)
    for manifest in render("--set", f"{switches},watchNamespaces={{a}}"):
        if manifest["kind"] == "CustomResourceDefinition":
            continue
        labels = manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "ringtrain"
        assert labels["app.kubernetes.io/instance"] == "rt"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["helm.sh/chart"].startswith("ringtrain-")


def test_annotations_of_all_objects_and_of_the_crd(render: Render) -> None:
    monitoring = ("podMonitor", "serviceMonitor", "prometheusRule", "dashboards")
    manifests = render(
        *("--set", ",".join(f"metrics.{each}.enabled=true" for each in monitoring)),
        *("--set", "replicas=2,watchNamespaces={a},commonAnnotations.team=a,commonAnnotations.d=b"),
        *("--set", "deploymentAnnotations.d=x,serviceAccount.annotations.role=arn,crds.annotations.wave=first"),
    )
    for manifest in manifests:
        annotations = manifest["metadata"]["annotations"]
        match manifest["kind"]:
            case "CustomResourceDefinition":
                assert annotations == {"helm.sh/resource-policy": "keep", "wave": "first"}
            case "Deployment":
                assert annotations == {"team": "a", "d": "x"}
            case "ServiceAccount":
                assert annotations == {"team": "a", "d": "b", "role": "arn"}
            case _:
                assert annotations == {"team": "a", "d": "b"}
    # Nobody's values are changed by the merge of another's.
    (crd,) = (each for each in render("--set", "crds.keep=false") if each["kind"] == "CustomResourceDefinition")
    assert "annotations" not in crd["metadata"]


def test_extras_land_where_a_user_expects_them(render: Render) -> None:
    manifests = render(
        *("--set", "commonLabels.team=a,deploymentAnnotations.d=x,podAnnotations.p=y,podLabels.tier=b"),
        *("--set", "metrics.service.annotations.s=z,serviceAccount.annotations.role=arn"),
        *("--set", "operator.extraEnv[0].name=HTTPS_PROXY,operator.extraEnv[0].value=http://proxy"),
        *("--set", "operator.extraEnvFrom[0].configMapRef.name=settings"),
    )
    deployment = only(manifests, "Deployment")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]

    assert deployment["metadata"]["annotations"] == {"d": "x"}
    assert pod["metadata"]["annotations"]["p"] == "y"
    assert pod["metadata"]["labels"].items() >= {"team": "a", "tier": "b"}.items()
    assert "team" not in deployment["spec"]["selector"]["matchLabels"]
    assert only(manifests, "Service")["metadata"]["annotations"] == {"s": "z"}
    assert only(manifests, "ServiceAccount")["metadata"]["annotations"] == {"role": "arn"}
    assert {"name": "HTTPS_PROXY", "value": "http://proxy"} in container["env"]
    assert container["envFrom"] == [{"configMapRef": {"name": "settings"}}]
    for manifest in manifests:
        if manifest["kind"] != "CustomResourceDefinition":
            assert manifest["metadata"]["labels"]["team"] == "a"


def test_selectors_survive_an_upgrade_of_the_chart(render: Render) -> None:
    manifests = render("--set", "metrics.podMonitor.enabled=true")
    selectors = [value for key, value in walk(manifests) if key in ("selector", "matchLabels")]

    assert selectors
    for selector in selectors:
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & {key for key, _ in walk(selector)}


def test_selectors_match_the_pod(render: Render) -> None:
    manifests = render("--set", "podLabels.team=a")
    deployment = only(manifests, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()

    assert labels >= deployment["selector"]["matchLabels"].items()
    assert labels >= only(manifests, "Service")["spec"]["selector"].items()


@pytest.mark.parametrize(
    ("release", "name"),
    [("rt", "rt-ringtrain"), ("my-ringtrain", "my-ringtrain"), ("r" * 53, "r" * 52)],
    ids=["short", "says it already", "too long"],
)
def test_names(release: str, name: str) -> None:
    manifests = list(yaml.safe_load_all(command(tool("helm"), "template", release, CHART)))

    assert only([m for m in manifests if m], "Deployment")["metadata"]["name"] == name


def test_releases_of_one_name_in_two_namespaces_share_nothing() -> None:
    def names(namespace: str) -> set[tuple[str, str]]:
        text = command(
            *(tool("helm"), "template", "rt", CHART, "-n", namespace, "--set", "crds.enabled=false"),
        )
        manifests = [manifest for manifest in yaml.safe_load_all(text) if manifest]
        return {(m["kind"], m["metadata"]["name"]) for m in manifests if "namespace" not in m["metadata"]}

    assert names("a")
    assert not names("a") & names("b")


def test_image_by_digest_wins_over_the_tag(render: Render) -> None:
    digest = "sha256:" + "0" * 64
    manifests = render("--set", f"image.repository=here/operator,image.tag=v1,image.digest={digest}")
    (container,) = only(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]

    assert container["image"] == f"here/operator@{digest}"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("image.pulPolicy=Never", "'/image': additional properties 'pulPolicy' not allowed"),
        ("imge.tag=1", "additional properties 'imge' not allowed"),
        ("image.pullPolicy=Sometimes", "'/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"),
        ("image.digest=sha256:12", "'/image/digest'"),
        ("image.repository=", "'/image/repository'"),
        ("operator.logFormat=xml", "'/operator/logFormat': value must be one of 'plain', 'json'"),
        ("operator.resyncSeconds=0", "'/operator/resyncSeconds': minimum: got 0, want 1"),
        ("operator.burst=0", "'/operator/burst': minimum: got 0, want 1"),
        ("operator.concurrency=many", "'/operator/concurrency': got string, want integer"),
        ("networkPolicy.metricsFrom[0].pods=all", "'/networkPolicy/metricsFrom/0'"),
        ("replicas=-1", "'/replicas': minimum: got -1, want 0"),
        ("leaderElection.leaseSeconds=1", "'/leaderElection/leaseSeconds': minimum: got 1, want 3"),
        ("watchNamespaces=team-a", "'/watchNamespaces': got string, want array"),
        ("watchNamespaces={Team_A}", "'/watchNamespaces/0'"),
        ("watchNamespaces={a,a}", "'/watchNamespaces'"),
        ("jobDefaults.cluster.replicas=2", "'/jobDefaults/cluster': additional properties 'replicas' not allowed"),
        (
            "jobDefaults.namespaces.Team_A.image=a",
            "'/jobDefaults/namespaces': additional properties 'Team_A' not allowed",
        ),
        ("jobDefaults.namespaces.team.trainer.rounds=1", "'/jobDefaults/namespaces/team': additional properties"),
        ("jobDefaults.image=a", "'/jobDefaults': additional properties 'image' not allowed"),
        ("metrics.service.port=70000", "'/metrics/service/port': maximum: got 70,000, want 65,535"),
        ("metrics.podMonitor.interval=fast", "'/metrics/podMonitor/interval'"),
        ("metrics.dashboards.namespace=Team_A", "'/metrics/dashboards/namespace'"),
        ("metrics.prometheusRule.runbookUrl=", "'/metrics/prometheusRule/runbookUrl'"),
        ("operator.extraEnvFrom[0].name=settings", "'/operator/extraEnvFrom/0'"),
        ("commonLabels.team=1", "'/commonLabels/team': got number, want string"),
        ("crds.enabled=maybe", "'/crds/enabled': got string, want boolean"),
        ("serviceAccount.create=false", "serviceAccount.name must name an existing service account"),
    ],
)
def test_wrong_values_are_refused(render: Render, values: str, message: str) -> None:
    with pytest.raises(CommandError) as error:
        render("--set", values)

    assert message in str(error.value)


def test_every_value_is_described_and_in_the_schema() -> None:
    """helm-docs reads the comments; a value that the schema does not know could never be set."""
    lines = (CHART / "values.yaml").read_text().splitlines()
    inside_of_maps = ("cpu", "memory", "grafana_dashboard")
    for before, line in itertools.pairwise(lines):
        key, _, value = line.partition(":")
        if value.strip() and not line.lstrip().startswith("#") and key.strip() not in inside_of_maps:
            assert before.lstrip().startswith("#"), f"{key.strip()} has no comment"


def test_artifact_hub_reads_what_is_true() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    notes = {key.removeprefix("artifacthub.io/"): value for key, value in chart["annotations"].items()}
    (crd,) = yaml.safe_load(notes["crds"])
    (example,) = yaml.safe_load(notes["crdsExamples"])

    assert notes["license"] == "Apache-2.0"
    assert (crd["name"], crd["version"], crd["kind"]) == (f"{PLURAL}.{GROUP}", VERSION, KIND)
    assert example["spec"]["image"].endswith(f":{chart['appVersion']}")
    parse(example["metadata"]["name"], example["spec"])


def test_notes_tell_what_to_do_next() -> None:
    notes = command(
        *(tool("helm"), "install", "rt", CHART, "-n", "team", "--dry-run=client", "--set", "watchNamespaces={team}")
    )

    assert "kubectl -n team rollout status deployment/rt-ringtrain" in notes
    assert "kubectl apply -n team -f job.yaml" in notes
