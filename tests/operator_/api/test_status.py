import json

from ringtrain_operator.api.status import Incident, TrainingJobStatus, as_stored


def test_a_status_comes_back_without_its_empty_texts() -> None:
    status = TrainingJobStatus(incident=Incident(failed=("replica 1",), counted=True))
    stored = as_stored(status)
    assert stored["incident"] == {"failed": ["replica 1"], "counted": True}
    assert TrainingJobStatus.model_validate_json(json.dumps(stored)) == status
