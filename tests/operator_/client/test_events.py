from typing import Any

from ringtrain_operator.client.events import events_of


def event(kind: str, name: str, time: str = "2026-01-01T00:00:01Z", uid: str = "u", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "involvedObject": {"kind": kind, "name": name, "uid": uid},
        "type": "Normal",
        "reason": "R",
        "message": "m\n",
        "lastTimestamp": time,
        **more,
    }


def test_those_of_the_job_and_its_children() -> None:
    own = [
        event("TrainingJob", "gpt"),
        event("Pod", "gpt-0-12"),
        event("PersistentVolumeClaim", "gpt-checkpoints"),
        event("Service", "gpt"),
    ]
    others = [
        event("TrainingJob", "gpt", uid="of an earlier job of this name"),
        event("TrainingJob", "gpt-2"),
        event("Pod", "gpt-2-0-1"),
        event("Pod", "gpt-web-abc"),
        event("PersistentVolumeClaim", "gpt-2-checkpoints"),
        event("Node", "gpt"),
    ]
    found = events_of("gpt", "u", [*others, *own])
    assert [e.object for e in found] == [
        "TrainingJob/gpt",
        "Pod/gpt-0-12",
        "PersistentVolumeClaim/gpt-checkpoints",
        "Service/gpt",
    ]
    assert {e.message for e in found} == {"m"}


def test_oldest_first_by_their_last_time() -> None:
    series = {"lastObservedTime": "2026-01-01T00:00:09.5Z", "count": 7}
    found = events_of(
        "gpt",
        "u",
        [
            event("TrainingJob", "gpt", series=series, lastTimestamp=None),
            event("TrainingJob", "gpt", "2026-01-01T00:00:05Z", count=3),
            event("TrainingJob", "gpt", lastTimestamp=None, eventTime="2026-01-01T00:00:04.000001Z"),
            event("TrainingJob", "gpt", lastTimestamp=None),
        ],
    )
    assert [e.count for e in found] == [1, 1, 3, 7]
    assert [e.time.second for e in found] == [0, 4, 5, 9]
