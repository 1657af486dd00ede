"""Torch's pipeline schedules over one rank's stages, whatever these are made of."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle

from ringtrain.comm.group import Group
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.models.stage import Stage

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(outputs, targets) of a micro-batch -> a scalar."""
_WRAPPERS = ("failed to run forward:", "Failed to run stage backward:")


@dataclass(frozen=True, slots=True)
class Piece:
    """One stage, and what goes through it of a micro-batch."""

    stage: Stage
    module: nn.Module
    """Takes one tensor, and gives one that is contiguous."""
    takes: Tensor
    """On the meta device, like `gives`; it requires a gradient unless the stage is the first."""
    gives: Tensor


class Schedule:
    """Takes batches, each cut into micro-batches, through a pipeline; all of its ranks do it together."""

    def __init__(
        self, pieces: Sequence[Piece], config: ParallelismConfig, micro_batches: int, loss: Loss, group: Group
    ) -> None:
        """`pieces` are this rank's. Gradients are those of the sum of the micro-batches' losses.

        Connects the pipeline's ranks: raises PeerLost, or what polling raises.
        """
        self._first = any(piece.stage.first for piece in pieces)
        self._last = any(piece.stage.last for piece in pieces)
        stages = [
            PipelineStage(
                piece.module,
                piece.stage.index,
                piece.stage.count,
                group.device,
                input_args=(piece.takes,),
                output_args=(piece.gives,),
                group=group.pipe(),
            )
            for piece in pieces
        ]
        self._schedule = _schedule(config, stages, micro_batches, loss)

    def run(self, inputs: Tensor, targets: Tensor, backward: bool) -> list[Tensor]:
        """The micro-batches' losses; none on a rank without the last stage. Gradients are added to the parameters'.

        A rank with neither end's stage makes no use of the batch. Raises PeerLost, or what polling raises.
        """
        run = self._schedule.step if backward else self._schedule.eval
        losses: list[Tensor] = []
        with _plain_errors():
            run(
                *((inputs,) if self._first else ()),
                target=targets if self._last else None,
                losses=losses if self._last else None,
                return_outputs=False,
            )
        return losses


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What a stage raises, as it raised it: torch's pipelines put a RuntimeError of their own around it, which tells
    neither its text nor, by its type, whether memory was exhausted or a peer was lost."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__cause__, Exception) and any(text in str(error) for text in _WRAPPERS):
            raise error.__cause__ from None
        raise


def _schedule(
    config: ParallelismConfig, stages: list[PipelineStage], micro_batches: int, loss: Loss
) -> PipelineScheduleSingle | PipelineScheduleMulti:
    # Gradients of ranks and micro-batches are added, and divided by the weight of all of them at the end.
    arguments: dict[str, Any] = {"n_microbatches": micro_batches, "loss_fn": loss, "scale_grads": False}
    match config.schedule:
        case "GPipe":
            return ScheduleGPipe(stages[0], **arguments)
        case "1F1B":
            return Schedule1F1B(stages[0], **arguments)
        case "Interleaved1F1B":
            return ScheduleInterleaved1F1B(list(stages), **arguments)
