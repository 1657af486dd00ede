"""How the ranks of a job are arranged: data parallel x pipeline, or data parallel with shards."""

from ringtrain.contract.model import ContractModel


class Mesh(ContractModel):
    """Ranks `data * pipeline`, densely: a pipeline is consecutive ranks, so it stays inside a machine when it fits."""

    data: int
    """Pipelines that train on different data."""
    pipeline: int = 1
    """Ranks that share one copy of the model."""
    shards: int = 1
    """Consecutive ranks that train on different data, and share out the parameters of one copy of the model. They
    divide `data`; 1 in a mesh with a pipeline."""

    @property
    def size(self) -> int:
        return self.data * self.pipeline

    @property
    def parts(self) -> int:
        """Ranks that hold one copy of the model together, each a part of it."""
        return self.pipeline * self.shards

    def place(self, rank: int) -> tuple[int, int]:
        """(data index, pipeline index) of a rank."""
        return divmod(rank, self.pipeline)

    def part(self, rank: int) -> int:
        """Which part of the model a rank holds."""
        return rank % self.parts

    def copy_ranks(self, rank: int) -> tuple[int, ...]:
        """The ranks that hold one copy of the model together with it, by part, itself among them: its pipeline, or
        those that share out parameters."""
        first = rank - self.part(rank)
        return tuple(range(first, first + self.parts))

    def twins(self, rank: int) -> tuple[int, ...]:
        """The ranks that hold the same part of the model, in order, itself among them."""
        return tuple(range(self.part(rank), self.size, self.parts))
