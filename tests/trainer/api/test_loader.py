"""The loader, by its properties: all ranks' batches together are the global order, whoever shares it."""

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from ringtrain.api.loader import Loader
from ringtrain.data.errors import DataError

SEED = 3


class Numbers(Dataset[int]):
    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> int:
        return index


class Drawn(Numbers):
    """Each sample is made of random numbers, like an augmentation."""

    def __getitem__(self, index: int) -> Any:
        return index, random.random(), torch.rand(1)


class Fetched(Numbers):
    """Whole batches at once, like those of Hugging Face's datasets."""

    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        return [100 + index for index in indices]


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield 1


def loader(dataset: Dataset[Any], batch_size: int, rank: int = 0, world_size: int = 1, **options: Any) -> Loader:
    given = {"seed": SEED} | options
    return Loader(dataset, batch_size, rank=rank, world_size=world_size, device=torch.device("cpu"), **given)


def take(size: int, world_size: int, batch_size: int, batches: int, state: dict[str, Any] | None) -> Any:
    """(all that the ranks of a world read next, the state then)"""
    ranks = [loader(Numbers(size), batch_size, rank, world_size) for rank in range(world_size)]
    for rank in ranks:
        if state is not None:
            rank.load_state_dict(state)
    read = [sample for _ in range(batches) for rank in ranks for sample in next(rank).tolist()]
    states = [rank.state_dict() for rank in ranks]
    assert all(state == states[0] for state in states)
    return read, states[0]


WORLD = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 3))


@given(st.integers(1, 13), st.lists(WORLD, min_size=1, max_size=3))
def test_every_epoch_has_every_sample_once_however_worlds_change(size: int, worlds: list[tuple[int, int, int]]) -> None:
    read: list[int] = []
    state = None
    for world_size, batch_size, batches in worlds:
        more, state = take(size, world_size, batch_size, batches, state)
        read += more
        assert state is not None
        assert state["position"] == len(read)
    unbroken, _ = take(size, 1, 1, len(read), None)
    assert read == unbroken
    for start in range(0, len(read) - size + 1, size):
        assert sorted(read[start : start + size]) == list(range(size))


def test_without_shuffling_it_is_the_datasets_order() -> None:
    ranks = [loader(Numbers(5), 2, rank, 2, shuffle=False) for rank in range(2)]
    assert [next(rank).tolist() for rank in ranks] == [[0, 1], [2, 3]]
    assert [next(rank).tolist() for rank in ranks] == [[4, 0], [1, 2]]


def test_what_workers_have_prefetched_is_not_consumed() -> None:
    first = loader(Numbers(20), 2, workers=2)
    read = [sample for _ in range(3) for sample in next(first).tolist()]
    state = first.state_dict()
    first.close()
    assert state["position"] == 6
    second = loader(Numbers(20), 2, workers=1)
    second.load_state_dict(state)
    read += [sample for _ in range(7) for sample in next(second).tolist()]
    second.close()
    assert sorted(read) == list(range(20))


def test_augmentations_of_workers_depend_on_the_sample_alone() -> None:
    def drawn(workers: int, ranks: int, skip: int) -> list[Any]:
        found: list[Any] = []
        for rank in range(ranks):
            own = loader(Drawn(24), 2, rank, ranks, workers=workers)
            own.load_state_dict({**own.state_dict(), "position": skip})
            for _ in range((24 - skip) // 2 // ranks):
                index, number, tensor = next(own)
                found += zip(index.tolist(), number.tolist(), tensor.flatten().tolist(), strict=True)
            own.close()
        return sorted(found)

    whole = drawn(workers=1, ranks=1, skip=0)
    assert len({number for _, number, _ in whole}) == 24
    assert drawn(workers=2, ranks=2, skip=0) == whole
    assert set(drawn(workers=2, ranks=1, skip=12)) < set(whole)


def test_the_models_random_numbers_are_left_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    for workers in (0, 1):
        own = loader(Numbers(4), 2, workers=workers)
        next(own)
        own.close()
    assert torch.equal(torch.rand(1), expected)


def test_datasets_may_fetch_whole_batches() -> None:
    assert next(loader(Fetched(4), 4, shuffle=False)).tolist() == [100, 101, 102, 103]


class Pair(NamedTuple):
    x: Tensor
    name: str


def test_all_tensors_of_a_batch_go_to_the_device() -> None:
    def collate(samples: list[int]) -> Any:
        return {"pair": Pair(torch.tensor(samples), "p"), "list": [torch.tensor(samples)], "count": len(samples)}

    own = Loader(Numbers(4), 2, rank=0, world_size=1, device=torch.device("meta"), collate=collate)
    batch = next(own)
    assert batch["pair"].x.device.type == batch["list"][0].device.type == "meta"
    assert (batch["pair"].name, batch["count"]) == ("p", 2)


@pytest.mark.parametrize(("name", "value"), [("samples", 21), ("seed", 4), ("shuffle", False)])
def test_a_position_in_another_order_is_refused(name: str, value: int) -> None:
    state = {**loader(Numbers(20), 2).state_dict(), name: value}
    with pytest.raises(DataError, match=rf"the loader's {name} is \w+, but the checkpoint was trained with {value}"):
        loader(Numbers(20), 2).load_state_dict(state)


def test_what_cannot_be_dealt_out_is_refused() -> None:
    with pytest.raises(DataError, match="a Endless has no length"):
        loader(Endless(), 2)
    with pytest.raises(DataError, match="the dataset is empty"):
        loader(Numbers(0), 2)
    with pytest.raises(DataError, match="batch_size is 0"):
        loader(Numbers(2), 0)


def test_ranks_of_a_pipeline_draw_the_same_whatever_their_own_generators() -> None:
    first, second = (loader(Drawn(20), 4, alike=True) for _ in range(2))
    for _ in range(8):
        torch.manual_seed(1)
        random.seed(1)
        one = next(first)
        assert (torch.rand(1).item(), random.random()) == (
            torch.rand(1, generator=torch.Generator().manual_seed(1)).item(),
            random.Random(1).random(),
        )
        torch.rand(5)
        random.random()
        other = next(second)
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
