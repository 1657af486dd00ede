"""What a replica is told, for tests that play its operator."""

from typing import Any

from ringtrain.contract.addresses import Addresses
from ringtrain.contract.environment import ReplicaEnvironment


def replica_environment(**fields: Any) -> ReplicaEnvironment:
    """Of the only rank of the only replica of a CPU job, but for `fields`."""
    given: dict[str, Any] = {
        "job": "job",
        "namespace": "default",
        "replica": 0,
        "replicas": 1,
        "procs_per_replica": 1,
        "epoch": 0,
        "addresses": Addresses("loopback", "127.1"),
        "device": "cpu",
    }
    return ReplicaEnvironment(**(given | fields))
