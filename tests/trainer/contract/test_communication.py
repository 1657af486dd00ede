import pytest

from ringtrain.contract.communication import CommunicationConfig


@pytest.mark.parametrize(
    ("config", "machines", "algorithm"),
    [
        (CommunicationConfig(codec="zfp"), 2, "direct"),
        (CommunicationConfig(codec="zfp"), 500, "direct"),
        (CommunicationConfig(codec="int4"), 500, "direct"),
        (CommunicationConfig(codec="bf16"), 16, "direct"),
        (CommunicationConfig(codec="bf16"), 17, "ring"),
        (CommunicationConfig(codec="none"), 17, "ring"),
        (CommunicationConfig(codec="zfp", algorithm="ring"), 2, "ring"),
        (CommunicationConfig(codec="none", algorithm="direct"), 17, "direct"),
    ],
)
def test_algorithm(config: CommunicationConfig, machines: int, algorithm: str) -> None:
    assert config.algorithm_on(machines) == algorithm


def test_what_was_left_out_survives_the_way_to_the_rank() -> None:
    config = CommunicationConfig(codec="none", bucket_mebibytes=0.5)
    assert CommunicationConfig.model_validate_json(config.to_json()) == config
