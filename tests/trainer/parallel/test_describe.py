from ringtrain.models.costs import Cost
from ringtrain.models.stage import cut
from ringtrain.parallel.describe import stage_texts


def test_every_stage_says_what_it_holds_and_costs() -> None:
    costs = [Cost(1_000_000, 10), Cost(20_000, 20), Cost(500_000, 10)]
    assert stage_texts(cut(3, (2,)), costs) == (
        "stage 0: embedding, sub-layers 0-1; 1.02 M parameters, 75% of the operations",
        "stage 1: sub-layers 2-2, head; 0.50 M parameters, 25% of the operations",
    )
