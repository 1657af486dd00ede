"""Batches of one rank, with a position that survives restarts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain.data.batch import Batch
from ringtrain.data.corpus import Corpus
from ringtrain.data.errors import DataError
from ringtrain.data.masking import mask
from ringtrain.data.sampler import Sampler


class Batches:
    """An endless sequence of micro-batches: a pure function of corpus, configuration, position, rank and world size.

    It never touches a global random generator.
    """

    def __init__(self, corpus: Corpus, config: TrainerConfig, rank: int, world_size: int) -> None:
        """Raises DataError when the corpus is too short for one micro-batch of all ranks."""
        self._corpus = corpus
        self._config = config
        self._rank = rank
        self._world_size = world_size
        self._position = 0
        # A decoder's targets are its inputs shifted by one, so they need one token more.
        self._extra = 1 if config.model.kind == "gpt" else 0
        context = config.model.context_length
        sequences = (len(corpus.tokens) - self._extra) // context
        if sequences < self._consumed:
            raise DataError(
                f"the corpus has {len(corpus.tokens)} tokens, but one micro-batch of {world_size} ranks needs "
                f"{self._consumed * context + self._extra} ({config.batch.per_rank} sequences of {context} tokens for "
                "each rank): add text to data.paths, or lower batch.perRank or model.contextLength"
            )
        self._sampler = Sampler(sequences, config.seed)

    @property
    def _consumed(self) -> int:
        """Sequences that one micro-batch of all ranks takes."""
        return self._world_size * self._config.batch.per_rank

    @property
    def position(self) -> int:
        """Sequences consumed by all ranks together since training began."""
        return self._position

    def next(self) -> Batch:
        """This rank's next micro-batch, tokens and targets int64 [per_rank, context_length], on the CPU."""
        draws = self._sampler.draw(self._position, self._rank, self._world_size, self._config.batch.per_rank)
        pairs = [self._example(draw.sequence, draw.position) for draw in draws]
        self._position += self._consumed
        tokens, targets = (torch.from_numpy(np.stack(rows)) for rows in zip(*pairs, strict=True))
        return Batch(tokens, targets)

    def _example(self, sequence: int, position: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        context = self._config.model.context_length
        start = sequence * context
        window = self._corpus.tokens[start : start + context + self._extra].astype(np.int64)
        if self._extra:
            return window[:-1], window[1:]
        # Seeded by the place in the global order: repeatable, and the same however many ranks share the work.
        return mask(
            window,
            probability=self._config.data.mask_probability,
            mask_token=self._corpus.mask_token,
            vocabulary=self._corpus.vocabulary,
            seed=(self._config.seed, position),
        )

    def state_dict(self) -> dict[str, Any]:
        """The position, and what it refers to; plain JSON values, the same on all ranks."""
        return {"position": self._position, "corpus": self._corpus.digest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state` was taken, in a world of any size. Raises DataError when the text is another."""
        if state["corpus"] != self._corpus.digest:
            raise DataError(
                "the text of data.paths is not the one that the checkpoint was trained on, so its data position means "
                "nothing: restore the files, or start a new job"
            )
        self._position = int(state["position"])
