import pytest
from pydantic import ValidationError

from ringtrain.contract.communication import CommunicationConfig


@pytest.mark.parametrize(
    ("config", "algorithm"),
    [
        (CommunicationConfig(), "direct"),
        (CommunicationConfig(codec="zfp"), "direct"),
        (CommunicationConfig(codec="int4"), "direct"),
        (CommunicationConfig(codec="bf16"), "ring"),
        (CommunicationConfig(codec="none"), "ring"),
        (CommunicationConfig(codec="zfp", algorithm="ring"), "ring"),
        (CommunicationConfig(codec="none", algorithm="direct"), "direct"),
    ],
)
def test_algorithm(config: CommunicationConfig, algorithm: str) -> None:
    assert config.chosen_algorithm == algorithm


@pytest.mark.parametrize("size", [0, 2**-21, 0.0009, 4097, float("nan"), float("inf")])
def test_a_bucket_of_a_size_that_cannot_be_is_refused(size: float) -> None:
    with pytest.raises(ValidationError, match="bucketMiB"):
        CommunicationConfig.model_validate({"bucketMiB": size})


def test_what_was_left_out_survives_the_way_to_the_rank() -> None:
    config = CommunicationConfig(codec="none", bucket_mebibytes=0.5)
    assert CommunicationConfig.model_validate_json(config.to_json()) == config
