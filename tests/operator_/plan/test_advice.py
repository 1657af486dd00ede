import pytest

from ringtrain_operator.plan.advice import with_advice

# As API servers, schedulers and kubelets of Kubernetes 1.20 to 1.34 say it.
SAID = [
    ('pods "job-0-0" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1', "quota"),
    (
        'pods "job-0-0" is forbidden: unable to create new content in namespace x because it is being terminated',
        "a namespace that stays",
    ),
    (
        'pods "job-0-0" is forbidden: error looking up service account team/t: serviceaccount "t" not found',
        "serviceAccountName",
    ),
    ('pods "job-0-0" is forbidden: violates PodSecurity "restricted:latest": privileged', "loosens"),
    ('pods "job-0-0" is forbidden: no PriorityClass with name high was found', "priorityClassName"),
    ('admission webhook "policy.example.com" denied the request: no GPUs on Sundays', "admission policy"),
    ("0/3 nodes are available: 3 pod has unbound immediate PersistentVolumeClaims.", "kubectl describe pvc"),
    ('persistentvolumeclaim "disk" not found', "kubectl describe pvc"),
    ('ImagePullBackOff: Back-off pulling image "x"', "spec.image"),
    ("ErrImageNeverPull: Container image x is not present with pull policy of Never", "spec.image"),
    ('CreateContainerConfigError: secret "key" not found', "Secret or ConfigMap"),
    ("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", "spec.resources"),
    ("0/3 nodes are available: 3 node(s) didn't match node selector.", "nodeSelector"),
    ("0/3 nodes are available: 3 node(s) had taint {gpu: true}, that the pod didn't tolerate.", "tolerations"),
]


@pytest.mark.parametrize(("words", "advice"), SAID)
def test_what_can_be_done_follows_what_is_wrong(words: str, advice: str) -> None:
    told = with_advice(words)
    said, _, added = told.partition("; ")
    assert said == words.rstrip(".")
    assert advice in added


def test_words_that_are_not_known_stand_alone() -> None:
    assert with_advice("the moon is full.") == "the moon is full."
