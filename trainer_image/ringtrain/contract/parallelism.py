"""How the model and its arithmetic are spread over ranks: `spec.parallelism` of a TrainingJob."""

from typing import Literal

from pydantic import Field, model_validator

from ringtrain.contract.mesh import Mesh
from ringtrain.contract.model import ContractModel

DEFAULT_STAGES_PER_RANK = 2
"""Of schedule Interleaved1F1B."""
MAXIMUM_PIPELINE = 512


class ParallelismConfig(ContractModel):
    """Consecutive ranks form a pipeline; what is left of the ranks trains on different data."""

    pipeline: int = Field(default=1, ge=1, le=MAXIMUM_PIPELINE)
    """Ranks that share one copy of the model, each with some of its sub-layers. It divides procsPerReplica, or is a
    multiple of it. Data parallelism is derived: all ranks / pipeline."""
    microbatches: int | None = Field(default=None, ge=1, le=4096)
    """Parts into which a pipeline cuts a batch of trainer.batch.perRank sequences; must divide it. When absent, the
    most that does, up to 4 x pipeline."""
    schedule: Literal["GPipe", "1F1B", "Interleaved1F1B"] = "1F1B"
    """In which order a pipeline works. `GPipe`: all forward, then all backward. `1F1B`: in turn, which holds fewer
    activations. `Interleaved1F1B`: in turn, with several stages on each rank, which idles less and sends more."""
    stages_per_rank: int | None = Field(default=None, ge=2, le=64)
    """Stages on each rank with schedule Interleaved1F1B; 2 when absent."""
    boundaries: tuple[int, ...] | None = Field(default=None, min_length=1, max_length=4096)
    """Sub-layers (attention and feed-forward count as one each, from 0) with which all stages but the first begin. When
    absent, stages are balanced by counted cost."""
    sharding: Literal["none", "machine"] = "none"
    """`machine`: the ranks of a machine divide parameters and optimizer among them (torch's FSDP2), and machines hold
    copies."""
    activation_checkpointing: bool = False
    """Sub-layers keep only their input, and compute the rest again in the backward pass: less memory, more work."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Of activations and matrix products. Parameters, gradients and optimizer are float32. fp16 scales the loss, so
    that small gradients survive."""
    compile: bool = False
    """Sub-layers are compiled by torch.compile; on CPUs that needs a C++ compiler in the image."""

    @model_validator(mode="after")
    def _fits_together(self) -> "ParallelismConfig":
        if self.stages_per_rank is not None and self.schedule != "Interleaved1F1B":
            raise ValueError("stagesPerRank is of schedule Interleaved1F1B only: remove it, or set that schedule")
        if self.pipeline == 1:
            for field in ("microbatches", "stages_per_rank", "boundaries"):
                if getattr(self, field) is not None:
                    name = {"stages_per_rank": "stagesPerRank"}.get(field, field)
                    raise ValueError(f"{name} is of a pipeline, and pipeline is 1: remove it, or raise pipeline")
        elif self.sharding != "none":
            raise ValueError("sharding machine and a pipeline exclude each other: set sharding none, or pipeline 1")
        if self.boundaries is not None:
            if any(a >= b for a, b in zip((0, *self.boundaries), self.boundaries, strict=False)):
                raise ValueError("boundaries must rise, from 1 up: a stage has at least one sub-layer")
            if len(self.boundaries) != self.stages - 1:
                raise ValueError(
                    f"boundaries has {len(self.boundaries)} entries, but {self.stages} stages need "
                    f"{self.stages - 1}: one for each stage but the first"
                )
        return self

    @property
    def stages(self) -> int:
        """Of one pipeline."""
        if self.schedule != "Interleaved1F1B" or self.pipeline == 1:
            return self.pipeline
        return self.pipeline * (self.stages_per_rank or DEFAULT_STAGES_PER_RANK)

    def mesh(self, world_size: int, processes: int) -> Mesh:
        """Of so many ranks, which `misfit` allows, on machines of `processes` each."""
        shards = processes if self.sharding == "machine" else 1
        return Mesh(data=world_size // self.pipeline, pipeline=self.pipeline, shards=shards)

    def misfit(self, replicas: int, processes: int) -> str:
        """Why the pipelines do not fit `replicas` machines of `processes` ranks, and what would; empty when they do."""
        world, size = replicas * processes, self.pipeline

        def fits(pipeline: int) -> bool:
            return world % pipeline == 0 and (processes % pipeline == 0 or pipeline % processes == 0)

        if fits(size):
            return ""
        fitting = filter(fits, range(1, min(world, MAXIMUM_PIPELINE) + 1))
        near = sorted(sorted(fitting, key=lambda pipeline: abs(pipeline - size))[:4])
        return (
            f"pipeline {size} does not fit replicas {replicas} x procsPerReplica {processes}: it must divide the "
            f"{world} ranks, and divide procsPerReplica or be a multiple of it. {', '.join(map(str, near))} would fit"
        )

    def microbatches_of(self, batch: int, named: str = "batch.perRank") -> int:
        """Into how many parts a pipeline cuts a batch of so many sequences, which messages call `named`.

        Raises ValueError, with what to do, when `microbatches` does not divide it or does not suit the schedule.
        """
        if self.pipeline == 1:
            return 1
        count = self.microbatches
        if count is None:
            most = min(batch, 4 * self.pipeline)
            count = max((n for n in range(1, most + 1) if batch % n == 0 and self._suits(n)), default=0)
            if not count:
                raise ValueError(
                    f"{named} {batch} cannot be cut for schedule {self.schedule}: {self._wanted()}. A multiple "
                    f"of {self.pipeline} sequences can"
                )
        if batch % count:
            raise ValueError(f"microbatches {count} does not divide {named} {batch}: change one of them")
        if not self._suits(count):
            raise ValueError(f"microbatches {count} does not suit schedule {self.schedule}: {self._wanted()}")
        return count

    def _suits(self, microbatches: int) -> bool:
        """What torch's schedules ask for."""
        if self.schedule == "1F1B":
            return microbatches >= self.pipeline
        if self.schedule == "Interleaved1F1B":
            return microbatches % max(1, microbatches // self.pipeline) == 0
        return True

    def _wanted(self) -> str:
        if self.schedule == "1F1B":
            return f"it needs at least as many parts as pipeline, {self.pipeline}"
        return f"it needs a multiple of pipeline, {self.pipeline}, or fewer parts"
