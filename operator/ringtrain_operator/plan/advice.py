"""What a user can do about words of the cluster's own, which say what is wrong and no more."""

import re

_ADVICE: tuple[tuple[str, str], ...] = (
    ("exceeded quota", "kubectl describe quota shows what is used: free some of it, or have the quota raised"),
    ("is being terminated|namespaces? .* not found", "apply the job in a namespace that stays"),
    (
        "service ?account .* not found",
        "create the service account, or correct spec.template.spec.serviceAccountName",
    ),
    ("violates PodSecurity", "take back what spec.template loosens, or use a namespace that allows it"),
    ("priorityclass|PriorityClass", "create the PriorityClass, or correct spec.scheduling.priorityClassName"),
    ("denied the request", "an admission policy of this cluster decides that: change spec.template as it says"),
    (
        "unbound immediate PersistentVolumeClaims|persistentvolumeclaim .* not found",
        "kubectl describe pvc tells why the claim has no volume: most often its storage class cannot make one for "
        "several nodes (spec.checkpoint.volume.claimTemplate.storageClassName)",
    ),
    (
        "ImagePullBackOff|ErrImagePull|InvalidImageName|ErrImageNeverPull",
        "correct spec.image, or name the registry's Secret in spec.template.spec.imagePullSecrets",
    ),
    (
        "CreateContainerConfigError",
        "create the Secret or ConfigMap that spec.template names, or correct its name",
    ),
    ("scheduling gates", "its queue has not admitted it yet: kubectl describe workloads says why, where Kueue is"),
    ("Insufficient ", "it waits for room: free or add nodes, or lower spec.resources"),
    ("didn't match|had taint|node\\(s\\) had", "correct nodeSelector, affinity or tolerations in spec.template.spec"),
)
"""Patterns of which the first that is found counts."""


def with_advice(words: str) -> str:
    """`words`, and what to do about them where that is known."""
    advice = next((advice for pattern, advice in _ADVICE if re.search(pattern, words)), "")
    return f"{words.rstrip('.')}; {advice}" if advice else words
