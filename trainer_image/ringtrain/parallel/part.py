"""What a rank holds of the model."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor, nn

from ringtrain.checkpoint.tree import Piece
from ringtrain.comm.local import local
from ringtrain.comm.verify import state_digest
from ringtrain.models import LanguageModel
from ringtrain.models.stage import Stage
from ringtrain.parallel.passes import Passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Whole parameters: of all of a model, or of some stages of a pipeline."""

    model: LanguageModel
    """Holds `stages`, and nothing else."""
    stages: tuple[Stage, ...]
    passes: Passes
    parameters: Mapping[str, nn.Parameter]
    """The model's, by name; between passes."""
    shared: frozenset[str] = frozenset()
    """Parameters that another stage of the pipeline holds too."""
    peers: dist.ProcessGroup | None = None
    """The ranks that hold a copy of the model together; None where each holds one of its own."""

    @property
    def copies(self) -> frozenset[str]:
        """Those of `shared` that are the other stage's to save, and to count."""
        return frozenset() if any(stage.first for stage in self.stages) else self.shared

    def values(self) -> dict[str, Tensor]:
        """What this rank holds of each parameter: the living tensors."""
        return {name: local(parameter).detach() for name, parameter in self.parameters.items()}

    def gradients(self) -> dict[str, Tensor]:
        """The same of those that there are."""
        return {name: local(p.grad) for name, p in self.parameters.items() if p.grad is not None}

    def saved(self, held: Mapping[str, Tensor]) -> dict[str, Tensor | Piece]:
        """Leaves of a checkpoint's tree, from what this rank holds by parameter: without those that others save."""
        return {name: self._leaf(name, tensor) for name, tensor in held.items() if name not in self.copies}

    def wanted(self, name: str) -> bool | slice:
        """What this rank needs of a checkpoint's leaf that belongs to a parameter: see `Wanted`."""
        return name in self.parameters

    def digests(self) -> dict[str, str]:
        """One for each whole parameter that this rank saves. All `peers` must ask for it.

        Raises PeerLost, or what polling raises.
        """
        return {name: state_digest({name: self._whole(name)}) for name in self.parameters if name not in self.copies}

    def _leaf(self, name: str, held: Tensor) -> Tensor | Piece:  # noqa: ARG002
        return held

    def _whole(self, name: str) -> Tensor:
        return local(self.parameters[name])
