"""What a round's report becomes: means over all ranks."""

from dataclasses import dataclass, field, fields, replace

import torch

from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter
from ringtrain.comm.report import TrafficTotals
from ringtrain.contract.report import Progress


@dataclass(frozen=True, slots=True)
class Reports:
    """What this rank has told of the round that runs."""

    loss: float | None = None
    evaluation_loss: float | None = None
    tokens: float | None = None

    def then(self, later: "Reports") -> "Reports":
        """What is told more than once in a round is as it was told last."""
        told = {each.name: getattr(later, each.name) for each in fields(later)}
        return replace(self, **{name: value for name, value in told.items() if value is not None})


@dataclass(slots=True)
class RoundReporter:
    """From each rank's reports to the job's progress."""

    group: Group
    meter: Meter
    reports: Reports = field(default_factory=Reports)
    loss: float | None = None
    """Mean over the ranks that told one, of the last finished round."""
    _evaluation_loss: float | None = None
    _totals: TrafficTotals = field(default_factory=TrafficTotals)

    def end_round(self, round: int, total: int, codec: str | None, votes: Votes) -> tuple[Progress, Votes]:
        """The job's progress, and the votes of all ranks; all must call it, each with its own.

        `codec` is None when no gradients were summed. Raises PeerLost, or what polling does. It costs one sum of nine
        numbers: less than the sum of any gradients.
        """
        told, self.reports = self.reports, Reports()
        values = [
            *((told.loss, 1.0) if told.loss is not None else (0.0, 0.0)),
            *((told.evaluation_loss, 1.0) if told.evaluation_loss is not None else (0.0, 0.0)),
            told.tokens or 0.0,
            *votes.values(),
        ]
        sums = torch.tensor(values, dtype=torch.float64)
        with self.meter.exposed():
            self.group.all_reduce(sums)
        loss, losses, evaluation, evaluations, tokens, *others = sums.tolist()
        self.loss = loss / losses if losses else None
        if evaluations:
            self._evaluation_loss = evaluation / evaluations
        traffic = self.meter.end_round()
        # The ranks of a pipeline all tell of the same batch.
        rate = tokens / self.group.mesh.pipeline / traffic.round_seconds
        progress = Progress(
            round=round,
            total_rounds=total,
            loss=self.loss,
            evaluation_loss=self._evaluation_loss,
            tokens_per_second=rate or None,
            communication_share=traffic.share if codec is not None else None,
            communication=self._totals.add(codec, traffic) if codec is not None else None,
        )
        return progress, Votes.of_sums(others)
