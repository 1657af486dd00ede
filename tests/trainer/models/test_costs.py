import pytest

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.models import outline
from ringtrain.models.costs import Cost, model_flops, sublayer_costs

VOCABULARY = 97


@pytest.mark.parametrize("kind", ["gpt", "encoder"])
def test_parameters_are_those_of_the_model(kind: str) -> None:
    config = ModelConfig.model_validate({"kind": kind, "size": "tiny", "context_length": 32})
    model = outline(config, VOCABULARY)
    costs = sublayer_costs(config, VOCABULARY)
    for number in range(1, len(costs) - 1):
        assert costs[number].parameters == sum(p.numel() for p in model.sublayers[str(number)].parameters())
    # The output projection is the embedding's tensor, which the last stage has to hold too.
    tied = model.embedding.tokens.weight.numel()
    assert sum(costs, Cost(0, 0)).parameters == sum(p.numel() for p in model.parameters()) + tied


def test_operations_are_those_of_the_matrix_products() -> None:
    config = ModelConfig(layers=1, width=64, heads=2, context_length=32)
    attention, feed_forward = sublayer_costs(config, VOCABULARY)
    assert attention.flops == 2 * 4 * 64 * 64 + 2 * 2 * 64 * 16
    assert feed_forward.flops == 2 * 8 * 64 * 64 + 2 * 64 * VOCABULARY


def test_a_backward_pass_is_two_forward_passes() -> None:
    config = ModelConfig(layers=2, width=64, heads=2, context_length=32)
    assert model_flops(config, VOCABULARY) == 3 * sum(cost.flops for cost in sublayer_costs(config, VOCABULARY))
