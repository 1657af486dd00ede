"""An endless, resumable stream of batches of any map-style dataset."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from ringtrain.checkpoint import randomness
from ringtrain.data.errors import DataError
from ringtrain.data.sampler import Draw, Sampler


class Loader(Iterator[Any]):
    """This rank's batches, on the rank's device, for ever.

    All samples of the dataset are dealt out to the data-parallel ranks, in an order of its own in every epoch. The
    whole state is one number, the same on all ranks: how many samples all of them have taken together. So another
    number of ranks goes on there, without repeating or leaving out any.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int,
        *,
        rank: int,
        world_size: int,
        device: torch.device,
        shuffle: bool = True,
        seed: int = 0,
        workers: int = 0,
        collate: Callable[[list[Any]], Any] | None = None,
        worker_started: Callable[[int], None] | None = None,
        alike: bool = False,
    ) -> None:
        """`rank` and `world_size` count data-parallel ranks; `alike` says that there are several of one number, which
        get the same batches. Raises DataError for what cannot be dealt out."""
        if batch_size < 1:
            raise DataError(f"batch_size is {batch_size}: expected at least 1")
        try:
            self._samples = len(dataset)  # type: ignore[arg-type]
        except TypeError:
            raise DataError(
                f"a {type(dataset).__name__} has no length: the loader needs a dataset with __len__ and __getitem__"
            ) from None
        if not self._samples:
            raise DataError("the dataset is empty")
        self._consumed = world_size * batch_size
        self._device = device
        self._order = {"samples": self._samples, "shuffle": shuffle, "seed": seed}
        self._position = 0
        self._batches: Iterator[Any] | None = None
        self._alike = alike

        def draws() -> Iterator[list[Draw]]:
            sampler = Sampler(self._samples, seed, shuffle)
            position = self._position
            while True:
                yield sampler.draw(position, rank, world_size, batch_size)
                position += self._consumed

        self._loader: DataLoader[Any] = DataLoader(
            _Drawn(dataset, seed, alike),
            batch_sampler=_Endless(draws),
            num_workers=workers,
            collate_fn=collate,
            pin_memory=device.type == "cuda",
            worker_init_fn=worker_started,
            # Its own, or the workers' seed would be drawn from the generator that the model uses, once more at every
            # restart.
            generator=torch.Generator().manual_seed(seed),
        )

    @property
    def position(self) -> int:
        """Samples that all ranks have taken since training began."""
        return self._position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            self._batches = iter(self._loader)
        with _kept_generators() if self._alike else nullcontext():
            batch = next(self._batches)
        # Not when the batch is drawn: what workers have prefetched is not consumed.
        self._position += self._consumed
        return _moved(batch, self._device)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self._position, **self._order}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state` was taken. Raises DataError when it was taken on samples in another order."""
        for name, own in self._order.items():
            if state[name] != own:
                raise DataError(
                    f"the loader's {name} is {own}, but the checkpoint was trained with {state[name]}, so its data "
                    "position means nothing: set it as it was, or start a new job"
                )
        self._position = int(state["position"])
        self.close()

    def close(self) -> None:
        """Ends the workers; the next batch starts others."""
        self._batches = None


class _Endless(Iterable[list[Draw]]):
    """Begins wherever the loader is when it is iterated over."""

    def __init__(self, draws: Callable[[], Iterator[list[Draw]]]) -> None:
        self._draws = draws

    def __iter__(self) -> Iterator[list[Draw]]:
        return self._draws()


class _Drawn(Dataset[Any]):
    """The dataset, asked for the samples of draws."""

    def __init__(self, dataset: Dataset[Any], seed: int, alike: bool) -> None:
        self._dataset = dataset
        self._seed = seed
        self._alike = alike

    def __getitems__(self, draws: list[Draw]) -> Any:
        self._seed_worker(draws[0])
        together = getattr(self._dataset, "__getitems__", None)
        if together is not None:
            return together([draw.sequence for draw in draws])
        return [self[draw] for draw in draws]

    def __getitem__(self, draw: Draw) -> Any:
        self._seed_worker(draw)
        return self._dataset[draw.sequence]

    def _seed_worker(self, draw: Draw) -> None:
        """By the place in the global order: augmentations are repeatable, whichever worker of whichever rank makes
        them. Without workers they draw from the rank's generators, which are in its checkpoints, unless other ranks
        have to draw the same."""
        if self._alike or get_worker_info() is not None:
            randomness.seed(self._seed, draw.position)


@contextmanager
def _kept_generators() -> Iterator[None]:
    before = randomness.capture()
    try:
        yield
    finally:
        randomness.restore(before)


def _moved(batch: Any, device: torch.device) -> Any:
    """The same lists, tuples and mappings, with all tensors on `device`."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: _moved(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_moved(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(_moved(value, device) for value in batch)
    return batch
