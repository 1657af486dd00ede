"""Ringtrain: the trainer side (agent, coordinator, ranks) and the contract it shares with the operator.

Training code of your own needs two names: `ringtrain.run(train_fn)`, and the `ringtrain.Context` that it passes.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringtrain.runtime.context import Context as Context
    from ringtrain.runtime.run import run as run

__all__ = ["Context", "run"]


def __getattr__(name: str) -> Any:
    # The agent and the coordinator import this package too, and must not import torch.
    if name == "run":
        from ringtrain.runtime.run import run

        return run
    if name == "Context":
        from ringtrain.runtime.context import Context

        return Context
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
