"""What a group of ranks tells of the replicated state that it holds: the text of its file `part-RANK`."""

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

    def of_rank(self, rank: int) -> tuple[str, ...]:
        """The tensors that this rank writes."""
        return tuple(path for path, chunk in self.chunks.items() if chunk.rank == rank)


def row_count(shape: tuple[int, ...]) -> int:
    """Of a tensor; one without dimensions has one row."""
    return shape[0] if shape else 1
