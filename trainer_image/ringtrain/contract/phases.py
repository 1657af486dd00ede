"""What a rank is doing, and how long each of these may take without a heartbeat."""

from enum import StrEnum

from pydantic import Field

from ringtrain.contract.model import ContractModel


class Phase(StrEnum):
    STARTING = "starting"
    """The process runs, and has not yet asked for a generation (imports, CUDA start)."""
    WAITING = "waiting"
    """For other members. Never fails /livez: one lost pod must not make kubelets kill all the others."""
    CHECKING = "checking"
    """The machine, before training (faultTolerance.preflight)."""
    RESTORING = "restoring"
    COMPILING = "compiling"
    """From a generation's start to its first finished round."""
    TRAINING = "training"
    CHECKPOINTING = "checkpointing"
    DONE = "done"
    """All rounds are trained; waits for the other ranks' end."""


class PhaseTimeouts(ContractModel):
    """Seconds after which a rank without a heartbeat counts as hung, by phase."""

    starting: float = Field(default=300, gt=0)
    """Seconds a rank may take to start (interpreter, imports, CUDA) without a heartbeat."""
    checking: float = Field(default=60, gt=0)
    """Seconds a step of the pre-flight check may take: a rank without a heartbeat for so long is unfit, and so is one
    whose exchanges with its peers all last longer."""
    compiling: float = Field(default=600, gt=0)
    """Seconds the first round after a (re)start may take without a heartbeat."""
    training: float = Field(default=120, gt=0)
    """Seconds a training round's own computation may take without a heartbeat."""
    checkpointing: float = Field(default=600, gt=0)
    """Seconds a save may take without a heartbeat."""
    restoring: float = Field(default=600, gt=0)
    """Seconds loading a checkpoint may take without a heartbeat."""

    def limit(self, phase: Phase) -> float | None:
        """Seconds without a heartbeat that `phase` allows; None where none are needed."""
        if phase in (Phase.WAITING, Phase.DONE):
            return None
        return float(getattr(self, phase.value))
