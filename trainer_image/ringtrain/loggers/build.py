"""Loggers by the names that specs give them."""

import importlib
from pathlib import Path

from ringtrain.contract.environment import CheckpointSettings
from ringtrain.loggers.loggers import Logger, Loggers
from ringtrain.runtime.errors import BadConfiguration

TENSORBOARD = "tensorboard"


def add(loggers: Loggers, name: str, checkpoint: CheckpointSettings | None) -> None:
    """`name` is "tensorboard", which writes to the folder of that name on the checkpoint volume, or MODULE:FUNCTION.

    Raises BadConfiguration.
    """
    if name == TENSORBOARD:
        if checkpoint is None:
            raise BadConfiguration("logger tensorboard writes to the checkpoint volume: set spec.checkpoint")
        # It takes a while to import, and most jobs do without.
        from ringtrain.loggers.tensorboard import TensorBoard

        board = TensorBoard(Path(checkpoint.directory) / TENSORBOARD)
        loggers.add(name, board, board.close)
    else:
        loggers.add(name, _function(name))


def _function(name: str) -> Logger:
    module, separator, attribute = name.partition(":")
    if not (module and separator and attribute):
        raise BadConfiguration(f"logger {name!r} is neither {TENSORBOARD} nor MODULE:FUNCTION")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BadConfiguration(f"logger {name} cannot be imported: {error}") from error
    if not callable(found):
        raise BadConfiguration(f"logger {name} is no function: it is called with a round's numbers and the round")
    log: Logger = found
    return log
