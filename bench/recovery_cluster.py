"""How long jobs stand still when a pod is deleted or a node dies: beside torchrun and torchft, on a cluster.

    python bench/recovery_cluster.py --quick
    python bench/recovery_cluster.py --trials 3 --json results.json

Four ranks, a pod each, train the same model: as a TrainingJob, and as StatefulSets. On the test bed, which KUBECONFIG
names, in a namespace of its own, which no other operator may look at; CRD and images must be there. Nodes are lost and
booted by the test bed. docs/recovery.md says what the columns mean.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from recovery import suffer
from recovery_pods import Kubectl, PodJob
from recovery_pods_systems import RingtrainPods, TorchFTPods, TorchrunPods
from recovery_results import CLUSTER_FAULTS, DELETE_POD, RINGTRAIN, TORCHFT, TORCHRUN, Results, Row
from recovery_table import tables

MAKE: Mapping[str, Callable[[Path, Kubectl, str], PodJob]] = {
    RINGTRAIN: RingtrainPods,
    TORCHRUN: TorchrunPods,
    TORCHFT: TorchFTPods,
}
_ROUNDS_BEFORE, _ROUNDS_BEFORE_QUICK = 20, 5


@contextmanager
def namespace() -> Iterator[Kubectl]:
    """A fresh one; it is deleted, with all that is in it, which nobody waits for."""
    kubectl = Kubectl(f"bench-{uuid.uuid4().hex[:8]}")
    kubectl("create", "namespace", kubectl.namespace)
    try:
        yield kubectl
    finally:
        kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        kubectl("delete", "namespace", kubectl.namespace, "--wait=false")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3, help="of each row (default: %(default)s)")
    parser.add_argument("--systems", default=",".join(MAKE), help="comma-separated (default: %(default)s)")
    parser.add_argument("--faults", help="comma-separated parts of their names; default: all")
    parser.add_argument("--image", default="localhost/ringtrain-trainer:dev", help="(default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one deleted pod of Ringtrain: proves that it runs")
    parser.add_argument("--json", type=Path, help="kept after every trial, and added to")
    args = parser.parse_args()
    results, moments = Results.load(args.json), random.Random(0)
    systems = [RINGTRAIN] if args.quick else args.systems.split(",")
    faults = [fault for fault in CLUSTER_FAULTS if not args.faults or any(map(fault.count, args.faults.split(",")))]
    for _ in range(1 if args.quick else args.trials):
        for name in systems:
            for fault in (DELETE_POD,) if args.quick else faults:
                rounds = _ROUNDS_BEFORE_QUICK if args.quick else _ROUNDS_BEFORE
                with (
                    tempfile.TemporaryDirectory(prefix="bench-recovery-") as directory,
                    namespace() as kubectl,
                    MAKE[name](Path(directory), kubectl, args.image) as job,
                ):
                    trial = suffer(job, fault, moments, rounds)
                print(f"{name}, {fault}: {trial}", file=sys.stderr)
                results.of(Row(system=name, fault=fault)).append(trial)
                results.save()
    subprocess.run([Path(__file__).parents[1] / "testbed" / "cluster", "reclaim"], check=False)
    print("\n\n".join(tables(results.rows)))


if __name__ == "__main__":
    main()
