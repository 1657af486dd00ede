from pathlib import Path

import pytest

from ringtrain_operator.local.gpus import visible_gpus


def test_devices_are_counted_in_order(tmp_path: Path) -> None:
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia0"):
        (tmp_path / name).touch()
    assert visible_gpus({}, tmp_path) == ("0", "2", "10")


@pytest.mark.parametrize(("value", "gpus"), [("", ()), ("1, 3", ("1", "3")), ("GPU-8f2c", ("GPU-8f2c",))])
def test_an_earlier_choice_of_gpus_holds(tmp_path: Path, value: str, gpus: tuple[str, ...]) -> None:
    (tmp_path / "nvidia0").touch()
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": value}, tmp_path) == gpus


def test_a_machine_without_gpus(tmp_path: Path) -> None:
    assert visible_gpus({}, tmp_path) == ()
