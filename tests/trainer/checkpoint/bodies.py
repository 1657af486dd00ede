"""What ranks do in the distributed tests of checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ringtrain.checkpoint.assembly import everything
from ringtrain.checkpoint.checkpoints import Checkpoints
from ringtrain.checkpoint.tree import Unread
from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import Report
from ringtrain.runtime.errors import BadConfiguration
from trainer.checkpoint.saver_bodies import new_tiers
from trainer.checkpoint.sessions import open_session
from trainer.comm.ranks import Link

GENERATION = Generation(1, 1)


def load(link: Link, rank: int, size: int, root: Path, mesh: Mesh, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Every rank asks for the tensor at its place in `wanted`, or for all."""
    group = link.form(rank, size, mesh=mesh)
    result: dict[str, Any] = {"round": None}
    with open_session(rank, size) as (session, agent):
        try:
            checkpoints = Checkpoints(CheckpointSettings(directory=str(root)), new_tiers(), session, GENERATION, group)
            restored = checkpoints.newest((lambda path: path == wanted[rank]) if wanted else everything)
        except BadConfiguration as error:
            result["refused"] = str(error)
        else:
            if restored is not None:
                replicated, local = restored.state.replicated, restored.state.local
                result = {
                    "round": restored.round,
                    "name": restored.name,
                    "weights": {
                        name: tensor.tolist()
                        for name, tensor in replicated["model"].items()
                        if not isinstance(tensor, Unread)
                    },
                    "own": None if local is None else local["own"].tolist(),
                }
        result["reports"] = [message.message for message in agent.received() if isinstance(message, Report)]
    group.destroy()
    return result
