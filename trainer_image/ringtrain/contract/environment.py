"""Everything a replica is told, by environment variables."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from pydantic import Field, ValidationError

from ringtrain.contract.addresses import Addresses
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.faults import Fault, parse_faults
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.model import ContractModel
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.phases import PhaseTimeouts
from ringtrain.contract.preflight import Preflight
from ringtrain.contract.trainer_config import TrainerConfig

PREFIX = "RINGTRAIN_"


Replicate = Literal["Auto", "Always", "Never"]
Recovery = Literal["Live", "Exact"]


class WarmStart(ContractModel):
    """Another job's checkpoints, whose newest one gives a job that has none yet its first parameters."""

    directory: str
    """An absolute path."""
    optimizer: bool = False
    """Its optimizer's state too."""


class CheckpointSettings(ContractModel):
    directory: str
    """Where the volume is mounted: an absolute path."""
    every: int = Field(default=5, ge=1)
    """Rounds between two checkpoints."""
    keep: int = Field(default=3, ge=1)
    """How many committed checkpoints are kept."""
    keep_every: int | None = Field(default=None, ge=1)
    """Rounds; checkpoints of their multiples are kept for ever."""
    memory_every: int = Field(default=1, ge=0)
    """Rounds between two snapshots in the machines' memory; 0: none."""
    replicate: Replicate = "Auto"
    """Whether snapshots are copied into another machine's memory. Auto: those of which no rank on another machine holds
    the parameters."""
    recovery: Recovery = "Live"
    """Whether training may go on from a state of which some rank's own part is lost."""
    save_on_preemption: bool = True
    """Whether a replica that is asked to stop makes all ranks save first."""
    warm_start: WarmStart | None = None
    """What a job without a checkpoint begins with; None: with its seed."""


class BadEnvironment(ValueError):
    """A variable is missing or wrong; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEnvironment:
    """The environment of one replica's agent; the same fields reach its ranks."""

    job: str
    namespace: str
    replica: int
    replicas: int
    procs_per_replica: int
    epoch: int
    addresses: Addresses
    device: Literal["cuda", "cpu"] = "cuda"
    timeouts: PhaseTimeouts = field(default_factory=PhaseTimeouts)
    max_restarts: int = 10
    """What the job may spend, as commands of torchrun's kind are told."""
    in_place_restarts: int = 3
    """How often in a row a rank is started again in its pod, without a round finished in between."""
    preflight: Preflight | None = None
    """None: ranks are not checked before they train."""
    checked: bool = False
    """Of a rank that takes another's place in the same pod: that one was found fit."""
    grace_seconds: float = 30.0
    """Between SIGTERM and SIGKILL."""
    termination_log: str = "/dev/termination-log"
    checkpoint: CheckpointSettings | None = None
    communication: CommunicationConfig = field(default_factory=CommunicationConfig)
    parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
    trainer: TrainerConfig | None = None
    """The built-in trainer's configuration; None when `command` is the user's."""
    command: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def world_size(self) -> int:
        return self.replicas * self.procs_per_replica

    @property
    def mesh(self) -> Mesh:
        return self.parallelism.mesh(self.world_size, self.procs_per_replica)

    def rank(self, local_rank: int) -> int:
        return self.replica * self.procs_per_replica + local_rank

    def to_env(self) -> dict[str, str]:
        values = {
            "JOB": self.job,
            "NAMESPACE": self.namespace,
            "REPLICA": str(self.replica),
            "REPLICAS": str(self.replicas),
            "PROCS_PER_REPLICA": str(self.procs_per_replica),
            "EPOCH": str(self.epoch),
            "ADDRESSES": str(self.addresses),
            "DEVICE": self.device,
            "TIMEOUTS": self.timeouts.to_short_json(),
            "MAX_RESTARTS": str(self.max_restarts),
            "IN_PLACE_RESTARTS": str(self.in_place_restarts),
            "PREFLIGHT": self.preflight.to_short_json() if self.preflight else "",
            "CHECKED": "1" if self.checked else "",
            "GRACE_SECONDS": str(self.grace_seconds),
            "TERMINATION_LOG": self.termination_log,
            "CHECKPOINT": self.checkpoint.to_short_json() if self.checkpoint else "",
            "COMMUNICATION": self.communication.to_short_json(),
            "PARALLELISM": self.parallelism.to_short_json(),
            "TRAINER": self.trainer.to_short_json() if self.trainer else "",
            "COMMAND": json.dumps(self.command) if self.command else "",
            "FAULTS": ";".join(map(str, self.faults)),
        }
        return {PREFIX + key: value for key, value in values.items() if value != ""}

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Raises BadEnvironment when a variable is missing or cannot be read."""

        def get(key: str) -> str:
            try:
                return env[PREFIX + key]
            except KeyError:
                raise BadEnvironment(f"{PREFIX}{key} is not set: start replicas by a TrainingJob") from None

        try:
            command = json.loads(env.get(PREFIX + "COMMAND") or "[]")
            checkpoint = env.get(PREFIX + "CHECKPOINT")
            trainer = env.get(PREFIX + "TRAINER")
            preflight = env.get(PREFIX + "PREFLIGHT")
            device = get("DEVICE")
            if device not in ("cuda", "cpu"):
                raise ValueError(f"{PREFIX}DEVICE is {device!r}: expected cuda or cpu")
            return cls(
                job=get("JOB"),
                namespace=get("NAMESPACE"),
                replica=int(get("REPLICA")),
                replicas=int(get("REPLICAS")),
                procs_per_replica=int(get("PROCS_PER_REPLICA")),
                epoch=int(get("EPOCH")),
                addresses=Addresses.parse(get("ADDRESSES")),
                device="cuda" if device == "cuda" else "cpu",
                timeouts=PhaseTimeouts.model_validate_json(env.get(PREFIX + "TIMEOUTS") or "{}"),
                max_restarts=int(env.get(PREFIX + "MAX_RESTARTS") or 10),
                in_place_restarts=int(env.get(PREFIX + "IN_PLACE_RESTARTS") or 3),
                preflight=Preflight.model_validate_json(preflight) if preflight else None,
                checked=bool(env.get(PREFIX + "CHECKED")),
                grace_seconds=float(env.get(PREFIX + "GRACE_SECONDS") or 30.0),
                termination_log=env.get(PREFIX + "TERMINATION_LOG") or "/dev/termination-log",
                checkpoint=CheckpointSettings.model_validate_json(checkpoint) if checkpoint else None,
                communication=CommunicationConfig.model_validate_json(env.get(PREFIX + "COMMUNICATION") or "{}"),
                parallelism=ParallelismConfig.model_validate_json(env.get(PREFIX + "PARALLELISM") or "{}"),
                trainer=TrainerConfig.model_validate_json(trainer) if trainer else None,
                command=tuple(str(word) for word in command),
                faults=parse_faults(env.get(PREFIX + "FAULTS", "")),
            )
        except BadEnvironment:
            raise
        except (ValueError, ValidationError) as error:
            raise BadEnvironment(f"a {PREFIX}* environment variable is wrong: {error}") from error
