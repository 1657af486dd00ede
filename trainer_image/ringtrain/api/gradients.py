"""A model whose backward passes end with the mean of its gradients over all ranks."""

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor, nn

from ringtrain.comm.reducer import Reducer


def unsummed(model: nn.Module, summed: Set[nn.Parameter]) -> str | None:
    """The name of a parameter that gets gradients, and is not among those that are summed; None when there is none."""
    return next((name for name, p in model.named_parameters() if p.requires_grad and p not in summed), None)


class MeanGradients:
    """When `backward()` returns, every `p.grad` of the model is the mean over all ranks, as with torch's DDP: so what
    comes after it, clipping, loss scalers or the optimizer, is that of a plain loop.

    A parameter that no rank used has a gradient of zeros.
    """

    def __init__(self, model: nn.Module, reducer: Reducer) -> None:
        self.reducer = reducer
        self.reduced = False
        """Since the round began, a backward pass has ended with the mean."""
        self._queued = False
        self._finished_pass = -1
        self._weight: float | None = None
        self._model = model
        self._summed = frozenset(parameter for parameter in model.parameters() if parameter.requires_grad)
        # After the reducer's own hooks: those of one parameter run in the order in which they were registered.
        self._hooks = [p.register_post_accumulate_grad_hook(self._arrived) for p in self._summed]  # type: ignore[no-untyped-call]

    def begin_round(self, round: int) -> None:
        """Before the first backward pass of `round`."""
        self.reduced = self._queued = False
        self.reducer.begin_round(round)

    def weigh(self, weight: float) -> None:
        """What this rank's gradients count for at the end of the next backward pass that sends them."""
        self._weight = weight

    def unsummed(self) -> str | None:
        """The name of a parameter that gets gradients of this rank alone, if there is one."""
        return unsummed(self._model, self._summed)

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.reducer.close()

    def _arrived(self, _parameter: Tensor) -> None:
        """The first gradient of a backward pass. Its end is heard of as DDP does it: by autograd's own queue."""
        if self.reducer.accumulating or self._queued:
            return
        if _current_pass() < self._finished_pass:
            raise RuntimeError(
                "a backward pass goes on after a pass that was nested in it: call torch.utils.checkpoint.checkpoint "
                "with use_reentrant=False"
            )
        self._queued = True
        engine: Any = torch.autograd.Variable._execution_engine
        engine.queue_callback(self._finish)
        self._pass = _current_pass()

    def _finish(self) -> None:
        self._queued = False
        self._finished_pass = self._pass
        weight, self._weight = self._weight, None
        self.reducer.finish(1.0 if weight is None else weight)
        self.reduced = True


def _current_pass() -> int:
    """Counts up with every backward pass of the process."""
    return int(torch._C._current_graph_task_id())
