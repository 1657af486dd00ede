"""A job of the built-in trainer under real agents on loopback addresses."""

import re
from dataclasses import dataclass, field, replace

from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.trainer_config import TrainerConfig
from support.loopback_job import LoopbackJob

COMPRESSED = CommunicationConfig(codec="zfp", error_feedback="plain", warmup_rounds=3)


@dataclass(kw_only=True)
class TrainerJob(LoopbackJob):
    trainer: TrainerConfig
    communication: CommunicationConfig = COMPRESSED
    parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)

    def environment(self, replica: int, epoch: int = 0) -> ReplicaEnvironment:
        return replace(
            super().environment(replica, epoch),
            trainer=self.trainer,
            communication=self.communication,
            parallelism=self.parallelism,
        )

    def finish(self) -> None:
        codes = {replica: self.wait(replica) for replica in self.agents}
        logs = "\n".join(f"--- replica {replica}\n{self.log(replica)[-4000:]}" for replica in self.agents)
        assert set(codes.values()) == {0}, f"{codes}\n{logs}"

    @property
    def digest(self) -> str:
        """Of the final parameters, in the one run that finished."""
        (digest,) = self.digests
        return digest

    @property
    def digests(self) -> list[str]:
        """Those of all runs that finished."""
        return re.findall(r"^final digest ([0-9a-f]{64})$", self.printed(0), re.MULTILINE)

    @property
    def losses(self) -> dict[int, float]:
        """By round; of a round that was trained twice, the last."""
        lines = re.findall(r"^round (\d+)/\d+ loss (\S+) ", self.printed(0), re.MULTILINE)
        return {int(round): float(loss) for round, loss in lines}

    @property
    def starts(self) -> list[str]:
        """What each generation started from."""
        return re.findall(r"start from (?:checkpoint )?(the seed|round-\d+)", self.printed(0))
