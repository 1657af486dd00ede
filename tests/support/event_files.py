"""Reads TensorBoard's event files: records of (length, its checksum, data, its checksum), data a protocol buffer."""

import struct
from collections import defaultdict
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event

_HEAD = struct.Struct("<QI")
_CHECKSUM_BYTES = 4


def scalars(file: Path) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of each curve, in the order of the file."""
    data, found = file.read_bytes(), defaultdict(list)
    while data:
        length, _ = _HEAD.unpack_from(data)
        event = Event.FromString(data[_HEAD.size : _HEAD.size + length])
        for value in event.summary.value:
            found[value.tag].append((event.step, value.simple_value))
        data = data[_HEAD.size + length + _CHECKSUM_BYTES :]
    return dict(found)
