import pytest

from ringtrain.models.peaks import peak_flops


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A10G", 125e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L4", 121e12),
        ("Tesla V100-SXM2-16GB", 125e12),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_by_the_name_that_torch_gives(device: str, peak: float | None) -> None:
    assert peak_flops(device, "bf16") == peak


def test_tensor_cores_do_not_tell_of_fp32() -> None:
    assert peak_flops("NVIDIA A100-SXM4-80GB", "fp32") is None
