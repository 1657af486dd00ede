"""What ranks do in the distributed tests of checkpoints."""

from pathlib import Path
from typing import Any

from ringtrain.checkpoint.reader import Reader
from ringtrain.contract.messages import Report
from ringtrain.runtime.errors import BadConfiguration
from trainer.checkpoint.sessions import open_session
from trainer.comm.ranks import Link


def load(link: Link, rank: int, size: int, root: Path) -> dict[str, Any]:
    group = link.form(rank, size)
    result: dict[str, Any] = {"round": None}
    with open_session(rank, size) as (session, agent):
        try:
            restored = Reader(root, session, group).load()
        except BadConfiguration as error:
            result["refused"] = str(error)
        else:
            if restored is not None:
                replicated, local = restored.state.replicated, restored.state.local
                result = {
                    "round": restored.round,
                    "name": restored.name,
                    "weights": {name: tensor.tolist() for name, tensor in replicated["model"].items()},
                    "own": None if local is None else local["own"].tolist(),
                }
        result["reports"] = [message.message for message in agent.received() if isinstance(message, Report)]
    group.destroy()
    return result
