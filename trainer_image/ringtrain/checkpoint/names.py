"""The names of directories on the checkpoint volume."""

import re
from dataclasses import dataclass
from typing import Self

from ringtrain.contract.generation import Generation

_TEXT = re.compile(r"round-(\d{8,})\.gen-(\d+\.\d+)")
_STAGING = ".staging."
_REMOVED = ".removed."


@dataclass(frozen=True, order=True, slots=True)
class CheckpointName:
    """A checkpoint's identity. The highest (generation, round) is the newest, so a cut-off coordinator never wins."""

    generation: Generation
    round: int

    def __str__(self) -> str:
        return f"round-{self.round:08d}.gen-{self.generation}"

    @property
    def staging(self) -> str:
        """The directory that the checkpoint is written into before its commit."""
        return f"{_STAGING}{self}"

    @property
    def removed(self) -> str:
        """What a committed directory is renamed to before its files are deleted one by one."""
        return f"{_REMOVED}{self}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The checkpoint that a committed directory's name stands for; None for any other name."""
        match = _TEXT.fullmatch(text)
        if match is None:
            return None
        name = cls(Generation.parse(match[2]), int(match[1]))
        return name if str(name) == text else None

    @classmethod
    def parse_hidden(cls, text: str) -> Self | None:
        """The checkpoint that a staging or removed directory's name stands for; None for any other name."""
        for prefix in (_STAGING, _REMOVED):
            if text.startswith(prefix):
                return cls.parse(text.removeprefix(prefix))
        return None
