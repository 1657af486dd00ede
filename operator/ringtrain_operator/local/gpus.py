"""Which CUDA GPUs this machine has, without importing torch."""

from collections.abc import Mapping
from pathlib import Path

DEVICES = Path("/dev")


def visible_gpus(environment: Mapping[str, str], devices: Path = DEVICES) -> tuple[str, ...]:
    """Identifiers of the GPUs, as CUDA_VISIBLE_DEVICES takes them; those that it names already when it is set."""
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return tuple(word.strip() for word in chosen.split(",") if word.strip())
    numbers = (path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*"))
    return tuple(map(str, sorted(int(number) for number in numbers if number.isdecimal())))
