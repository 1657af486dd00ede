import json
from pathlib import Path
from typing import Any

import pytest

from ringtrain_operator.cluster.api import ApiError, KubernetesApi
from ringtrain_operator.cluster.pod_groups import apply
from ringtrain_operator.cluster.protocol import Rejected
from support.scripted_api import Answer, ScriptedApi, by_path, says

PATH = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/gpt"
GROUP: dict[str, Any] = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "gpt"},
    "spec": {"minMember": 3},
}


def ask(answer: Answer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedApi:
    server = ScriptedApi(by_path({PATH: answer}))

    async def work(api: KubernetesApi) -> None:
        await apply(api, "team", GROUP)

    server.ask(folder, monkeypatch, work)
    return server


def test_it_is_made_or_changed_by_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ask(says(201, GROUP), tmp_path, monkeypatch)
    (request,) = server.requests
    assert (request.method, request.content_type) == ("PATCH", "application/apply-patch+yaml")
    assert dict(request.query) == {"fieldManager": "ringtrain-operator", "force": "true"}
    assert json.loads(server.bodies[0]) == GROUP


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            says(404, {"reason": "NotFound", "message": "the server could not find the requested resource"}),
            "no PodGroups",
        ),
        (says(403, {"reason": "Forbidden", "message": "denied"}), "PodGroup gpt was refused: denied"),
    ],
)
def test_where_it_cannot_be_the_reason_is_told(
    answer: Answer, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Rejected, match=words):
        ask(answer, tmp_path, monkeypatch)


def test_other_errors_are_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApiError):
        ask(says(500, {"reason": "InternalError"}), tmp_path, monkeypatch)
