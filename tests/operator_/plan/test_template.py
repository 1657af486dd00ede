from ringtrain_operator.plan.template import merge


def test_objects_are_merged_field_by_field_and_values_replaced() -> None:
    base = {"securityContext": {"runAsUser": 1000, "fsGroup": 1000}, "hostname": "a"}
    assert merge(base, {"securityContext": {"runAsUser": 7}, "nodeSelector": {"zone": "b"}}) == {
        "securityContext": {"runAsUser": 7, "fsGroup": 1000},
        "hostname": "a",
        "nodeSelector": {"zone": "b"},
    }


def test_lists_of_named_things_are_merged_by_name_in_place() -> None:
    base = {"containers": [{"name": "trainer", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}
    patch = {
        "containers": [
            {"name": "sidecar", "image": "x"},
            {"name": "trainer", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
        ]
    }
    assert merge(base, patch)["containers"] == [
        {
            "name": "trainer",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
        },
        {"name": "sidecar", "image": "x"},
    ]


def test_mounts_are_told_apart_by_their_path() -> None:
    base = {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    merged = merge(base, {"volumeMounts": [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}]})
    assert [mount["mountPath"] for mount in merged["volumeMounts"]] == ["/dev/shm", "/a", "/b"]


def test_other_lists_are_replaced() -> None:
    assert merge({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}) == {"tolerations": [{"key": "b"}]}


def test_null_removes_a_field() -> None:
    assert merge({"securityContext": {"seccompProfile": {"type": "x"}}}, {"securityContext": None}) == {}


def test_neither_side_is_changed() -> None:
    base = {"containers": [{"name": "trainer", "env": []}]}
    merge(base, {"containers": [{"name": "trainer", "env": [{"name": "A", "value": "1"}]}]})
    assert base == {"containers": [{"name": "trainer", "env": []}]}
