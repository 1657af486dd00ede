"""Is there storage that all replicas of a job can share?"""

from ringtrain_operator.doctor.facts import Facts, StorageClass, Unknown, Volume
from ringtrain_operator.doctor.finding import Finding, Level

_SUBJECT = "storage"
_MODE = "ReadWriteMany"
_STATIC = "kubernetes.io/no-provisioner"
_SHARED = (
    "nfs", "efs.csi.aws.com", "fsx.csi.aws.com", "file.csi.azure.com", "azure-file", "filestore", "cephfs", "glusterfs",
    "lustre", "weka", "beegfs", "juicefs", "quobyte", "gcsfuse", "longhorn", "portworx", "vast", "spectrumscale",
)  # fmt: skip
"""Words in the names of provisioners that give ReadWriteMany."""
_SINGLE = (
    "ebs", "pd.csi.storage.gke.io", "gce-pd", "disk.csi.azure.com", "azure-disk", "cinder", "rbd", "local-path",
    "hostpath", "topolvm", "openebs.io/local", "vsphere-volume", "dobs.csi", "csi.hetzner", "linodebs",
)  # fmt: skip
"""And of those that do not."""
_FIX = (
    "install a provisioner of shared file systems (NFS, CephFS, EFS, Filestore, Azure Files), or name a claim of yours "
    "in spec.checkpoint.volume.claimName"
)


def check(facts: Facts) -> tuple[Finding, ...]:
    if isinstance(facts.classes, Unknown):
        return (Finding(Level.UNKNOWN, _SUBJECT, facts.classes.why),)
    volumes = () if isinstance(facts.volumes, Unknown) else facts.volumes
    verdicts = {found: _shares(found, volumes) for found in facts.classes}
    shared = [found for found, shares in verdicts.items() if shares]
    doubtful = [found for found, shares in verdicts.items() if shares is None]
    if shared:
        return (_choice(shared, facts.classes),)
    if any(_MODE in volume.modes and volume.is_free and not volume.storage_class for volume in volumes):
        text = f"free volumes without a class offer {_MODE}: set storageClassName to an empty string"
        return (Finding(Level.OK, _SUBJECT, text),)
    if doubtful:
        names = ", ".join(f"{found.name} ({found.provisioner})" for found in doubtful)
        text = f"whether {names} gives {_MODE} volumes cannot be told: jobs of several replicas need it"
        return (
            Finding(
                Level.WARN,
                _SUBJECT,
                text,
                "make a claim of this mode and see whether it is bound, or ask who runs the cluster",
            ),
        )
    names = ", ".join(f"{found.name} ({found.provisioner})" for found in facts.classes)
    text = f"no storage class gives {_MODE} volumes, which jobs of several replicas need: {names or 'there is none'}"
    return (Finding(Level.FAIL, _SUBJECT, text, _FIX),)


def _shares(found: StorageClass, volumes: tuple[Volume, ...]) -> bool | None:
    """None: it cannot be told."""
    own = [volume for volume in volumes if volume.storage_class == found.name and _MODE in volume.modes]
    if found.provisioner == _STATIC:
        return any(volume.is_free for volume in own)
    if own or any(word in found.provisioner for word in _SHARED):
        return True
    return False if any(word in found.provisioner for word in _SINGLE) else None


def _choice(shared: list[StorageClass], classes: tuple[StorageClass, ...]) -> Finding:
    names = ", ".join(found.name for found in shared)
    default = next((found for found in classes if found.is_default), None)
    if default is None or default in shared:
        return Finding(Level.OK, _SUBJECT, f"{_MODE} volumes: {names}")
    text = f"the default class {default.name} gives no {_MODE} volumes; these do: {names}"
    fix = f"set spec.checkpoint.volume.claimTemplate.storageClassName: {shared[0].name}"
    return Finding(Level.WARN, _SUBJECT, text, fix)
