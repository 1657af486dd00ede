"""What a group of ranks tells of the replicated state that it holds: the text of its file `part-RANK`."""

import hashlib
import json
from pathlib import Path

from ringtrain.contract.model import ContractModel

PREFIX = "part-"
"""Of the names of such files."""


class Chunk(ContractModel):
    """A tensor, or some rows of one, in the file of a rank."""

    rank: int
    dtype: str
    """Such as torch.float32."""
    shape: tuple[int, ...]
    """Of the rows that lie here."""
    offset: int
    """The first of them. A tensor without dimensions has one row."""
    total: int
    """Rows of the whole tensor."""

    @property
    def end(self) -> int:
        return self.offset + row_count(self.shape)

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """Of the whole tensor."""
        return (self.total, *self.shape[1:]) if self.shape else ()


class Part(ContractModel):
    """What one group of ranks holds of the replicated state."""

    holders: tuple[int, ...]
    """The group."""
    structure: str
    """JSON of `tree.flatten`."""
    chunks: dict[str, Chunk]
    """By the tensor's path."""

    @property
    def layout(self) -> str:
        """A digest of all but the structure, of which that of the first holder counts."""
        return hashlib.sha256(self.model_copy(update={"structure": ""}).to_json().encode()).hexdigest()

    def of_rank(self, rank: int) -> tuple[str, ...]:
        """The tensors that this rank writes."""
        return tuple(path for path, chunk in self.chunks.items() if chunk.rank == rank)


def row_count(shape: tuple[int, ...]) -> int:
    """Of a tensor; one without dimensions has one row."""
    return shape[0] if shape else 1


def read_part(path: Path) -> Part:
    """Of the file `part-RANK`, without the library, which needs torch. Raises OSError, or ValueError for others."""
    data = path.read_bytes()
    try:
        # A safetensors file: the length of a JSON header, and the header.
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return Part.model_validate_json(header["__metadata__"]["text"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"its header lacks {error}") from error
