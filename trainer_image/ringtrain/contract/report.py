"""What a pod says of itself and of its job: GET /status, and the termination message."""

import math
from datetime import datetime

from ringtrain.contract.model import ContractModel
from ringtrain.contract.phases import Phase


class LinkTotals(ContractModel):
    """What one rank sent over one kind of link. Seconds are added up over its threads: they may pass the rounds'."""

    raw_bytes: int = 0
    """A ring all-reduce would send, of the gradients as they are."""
    sent_bytes: int = 0
    """Sent."""
    codec_seconds: float = 0.0
    """Encoding, decoding and adding."""
    wire_seconds: float = 0.0
    """Sending, and waiting for peers."""
    sampled_square: float = 0.0
    """Squares of values that were encoded, added up, of one message of each bucket."""
    lost_square: float = 0.0
    """Squares of what encoding lost of them."""

    @property
    def error(self) -> float | None:
        """What encoding loses, as a part of what it encodes (L2 norms), 0..; None when nothing was encoded."""
        return math.sqrt(self.lost_square / self.sampled_square) if self.sampled_square > 0 else None


class CommunicationTotals(ContractModel):
    """A rank's communication since it entered the generation, or since the warm-up ended: all with one codec."""

    codec: str
    """Of large tensors between machines, such as zfp-4; bf16 during the warm-up."""
    rounds: int
    """These many."""
    round_seconds: float
    communication_seconds: float
    """In which at least one all-reduce ran."""
    exposed_seconds: float
    """In which training waited for communication and did nothing else."""
    intra: LinkTotals
    """Inside the machine."""
    inter: LinkTotals
    """Between machines."""

    @property
    def share(self) -> float:
        """Exposed / round time, 0..1."""
        return self.exposed_seconds / self.round_seconds if self.round_seconds > 0 else 0.0

    @property
    def ratio(self) -> float | None:
        """Raw bytes / sent bytes between machines; None when there was nothing to send."""
        return self.inter.raw_bytes / self.inter.sent_bytes if self.inter.sent_bytes else None


class CheckpointTotals(ContractModel):
    """A rank's saves since it entered the generation."""

    committed: int = 0
    """On the volume."""
    failed: int = 0
    skipped: int = 0
    """They were due while some rank still wrote the one before."""
    snapshots: int = 0
    """In the machine's memory; those that went on to the volume included."""
    snapshot_seconds: float = 0.0
    """In which training stood still for them."""
    write_seconds: float = 0.0
    """In which committed ones were written and committed, while training went on."""
    written_bytes: int = 0
    """By this rank, of committed ones."""


class Progress(ContractModel):
    """A rank's progress, as of its last finished round."""

    round: int
    """Rounds finished."""
    total_rounds: int
    loss: float | None = None
    """Mean training loss per token of the last round, over all ranks, in nats."""
    evaluation_loss: float | None = None
    """Mean loss per token of the last evaluation, in nats."""
    gradient_norm: float | None = None
    """L2 norm of the last round's mean gradient before clipping; None when it was not finite."""
    tokens_per_second: float | None = None
    """Of the whole job."""
    flops_per_second: float | None = None
    """Operations of the model's forward and backward passes, of the whole job; what is computed twice counts once."""
    peak_flops_per_second: float | None = None
    """What all devices of the job could do by their data sheets, where these are known."""
    communication_share: float | None = None
    """Exposed communication / round time, 0..1, of the last round."""
    communication: CommunicationTotals | None = None
    """The rank's own."""
    checkpoints: CheckpointTotals | None = None
    """The rank's own."""


class Fitness(ContractModel):
    """What the pre-flight check measured of a rank that is fit."""

    product: float
    """Seconds of the matrix product."""
    exchange: float | None = None
    """Seconds of the exchange with its quickest peer; None when it has none."""


class RankStatus(ContractModel):
    rank: int
    phase: Phase
    pid: int | None = None
    beat_age: float
    """Seconds since the last heartbeat."""
    progress: Progress | None = None
    part: str = ""
    """Of the model, that it holds; empty without a pipeline."""
    fitness: Fitness | None = None
    """By the last pre-flight check; None before any."""
    restarts: int = 0
    """How often its process was started again in this pod."""


class CheckpointRecord(ContractModel):
    """A committed checkpoint."""

    round: int
    """Rounds finished when it was taken."""
    time: datetime
    """When it was committed."""


class Notice(ContractModel):
    """Something a user should know, such as a damaged checkpoint that was skipped. Becomes an event."""

    sequence: int
    """Counts up within one coordinator process."""
    time: datetime
    reason: str
    """CamelCase, as of a Kubernetes event."""
    message: str
    warning: bool = True


class RankFailure(ContractModel):
    """A rank that was started again in its pod."""

    time: datetime
    replica: int
    epoch: int
    """Of the pod."""
    number: int
    """Counts such restarts in this pod, from 1."""
    rank: int
    exit_code: int
    message: str
    round: int | None = None
    """Rounds finished."""
    generation: str | None = None
    """The newest that its agent had heard of; None before any."""


class JobReport(ContractModel):
    """The coordinator's view of the whole job."""

    generation: str | None = None
    """EPOCH.ATTEMPT of the generation that trains; None while members gather."""
    phase: Phase = Phase.WAITING
    progress: Progress | None = None
    last_checkpoint: CheckpointRecord | None = None
    absent_replicas: tuple[int, ...] = ()
    """Replicas that have no live connection to the coordinator."""
    finished: bool = False
    """All ranks are done and the last checkpoint is committed."""
    coordinator_id: str = ""
    """Random, new with every coordinator process: (coordinator_id, notice.sequence) is unique."""
    notices: tuple[Notice, ...] = ()
    """The latest 20."""
    rank_failures: tuple[RankFailure, ...] = ()
    """The latest 20 of ranks that were started again in pods that are still there."""
    stragglers: tuple[int, ...] = ()
    """Ranks for which all others wait."""


class AgentStatus(ContractModel):
    """GET /status."""

    job: str
    replica: int
    epoch: int
    live: bool
    reason: str = ""
    """Why it is not live; names the rank and its phase."""
    ranks: tuple[RankStatus, ...] = ()
    job_report: JobReport | None = None
    """The newest report that the coordinator sent; None before the first."""


class TerminationMessage(ContractModel):
    """Why a pod ended, written by the agent to its termination log (at most 4096 bytes)."""

    exit_code: int
    reason: str
    message: str
    rank: int | None = None
    round: int | None = None
    generation: str | None = None
    """The newest that the agent had heard of; None before any."""
    progress: Progress | None = None
    """The whole job's last, once it is done or the replica was asked to stop."""
    last_checkpoint: CheckpointRecord | None = None
    """The whole job's last, likewise: nobody may be left to be asked."""
    rank_failures: tuple[RankFailure, ...] = ()
    """The latest 5 of the job's last report, likewise, in few words."""
