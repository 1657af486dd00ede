import pytest
from torch import nn

from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.parallel.layers import cut_layers


def begins(layers: list[nn.Module], **fields: object) -> list[int]:
    config = ParallelismConfig.model_validate({"pipeline": 2} | fields)
    return [stage.begin for stage in cut_layers(layers, config)]


def test_layers_are_cut_evenly_by_parameters() -> None:
    assert begins([nn.Linear(9, 9), nn.Tanh(), nn.Linear(3, 3), nn.Linear(6, 6)]) in ([0, 1], [0, 2])
    assert begins([nn.Linear(9, 9), nn.Linear(9, 9), nn.Linear(9, 9), nn.Linear(9, 9)], pipeline=4) == [0, 1, 2, 3]


def test_boundaries_are_layers() -> None:
    assert begins([nn.Linear(9, 9)] * 1 + [nn.Tanh(), nn.Linear(2, 2)], boundaries=[2]) == [0, 2]
    with pytest.raises(ValueError, match="leave a stage without any of the 2 sub-layers"):
        begins([nn.Linear(2, 2), nn.Linear(2, 2)], boundaries=[2])


def test_a_parameter_may_lie_twice_in_one_stage_only() -> None:
    first, last = nn.Linear(2, 2), nn.Linear(2, 2)
    last.weight = first.weight
    assert begins([first, last, nn.Linear(9, 9)]) == [0, 2]
    with pytest.raises(ValueError, match=r"parameters 0.weight and 2.weight are one, and lie in two stages"):
        begins([first, nn.Linear(2, 2), last])
