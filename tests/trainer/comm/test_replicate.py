import pytest
import torch

from trainer.comm.ranks import Ranks
from trainer.comm.replicate_bodies import replicated

pytestmark = pytest.mark.distributed


def test_all_ranks_get_rank_0s_values() -> None:
    with Ranks() as ranks:
        results = ranks.run(3, replicated)
    third = torch.tensor(1 / 3).item()
    assert (
        results
        == [
            [
                ("torch.float32", [[third] * 3] * 2),
                ("torch.float16", [[1.0] * 3] * 2),
                ("torch.int64", 1),
                ("torch.bool", [True, True]),
                ("torch.float32", []),
                ("torch.bfloat16", [1.0, 1.0]),
            ]
        ]
        * 3
    )
