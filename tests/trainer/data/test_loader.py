import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from ringtrain.contract.trainer_config import BatchConfig, DataConfig, ModelConfig, TrainerConfig
from ringtrain.data import IGNORED, Batch, Batches, Corpus, DataError

CONTEXT = 8


def _corpus(tokens: int = 400) -> Corpus:
    return Corpus(
        np.arange(tokens, dtype=np.uint16), vocabulary=tokens + 1, mask_token=tokens, digest=f"digest-{tokens}"
    )


def _config(kind: str = "gpt", per_rank: int = 2) -> TrainerConfig:
    return TrainerConfig(
        rounds=1,
        seed=5,
        model=ModelConfig.model_validate({"kind": kind, "context_length": CONTEXT}),
        data=DataConfig(paths=("unused",)),
        batch=BatchConfig(per_rank=per_rank),
    )


def _same(first: Batch, second: Batch) -> bool:
    return torch.equal(first.tokens, second.tokens) and torch.equal(first.targets, second.targets)


def _starts(batch: Batch) -> list[int]:
    return [int(row[0]) for row in batch.tokens]


def test_a_decoder_predicts_the_next_token() -> None:
    batch = Batches(_corpus(), _config(), 0, 1).next()
    assert batch.tokens.shape == batch.targets.shape == (2, CONTEXT)
    assert batch.tokens.dtype == batch.targets.dtype == torch.int64
    assert torch.equal(batch.targets, batch.tokens + 1)


def test_an_encoder_restores_hidden_tokens() -> None:
    batch = Batches(_corpus(), _config("encoder"), 0, 1).next()
    hidden = batch.targets != IGNORED
    assert batch.tokens.shape == batch.targets.shape == (2, CONTEXT)
    assert hidden.sum(dim=1).tolist() == [1, 1]
    rebuilt = torch.where(hidden, batch.targets, batch.tokens)
    assert torch.equal(rebuilt - rebuilt[:, :1], torch.arange(CONTEXT).expand(2, -1))


@pytest.mark.parametrize("kind", ["gpt", "encoder"])
def test_batches_are_repeatable_and_leave_the_global_generators_alone(kind: str) -> None:
    states = torch.get_rng_state(), str(np.random.get_state()), random.getstate()
    first, second = (Batches(_corpus(), _config(kind), 1, 3) for _ in range(2))
    for _ in range(20):
        assert _same(first.next(), second.next())
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == str(np.random.get_state())
    assert states[2] == random.getstate()


def test_ranks_read_different_sequences() -> None:
    ranks = [Batches(_corpus(), _config(), rank, 3) for rank in range(3)]
    read = [start for _ in range(8) for batches in ranks for start in _starts(batches.next())]
    assert len(read) == len(set(read)) == 48


@pytest.mark.parametrize("kind", ["gpt", "encoder"])
def test_the_state_goes_on_where_it_was_taken(kind: str) -> None:
    batches = Batches(_corpus(), _config(kind), 1, 2)
    for _ in range(15):  # Past the end of the first epoch.
        batches.next()
    state = json.loads(json.dumps(batches.state_dict()))
    expected = [batches.next() for _ in range(5)]
    for resumed in (Batches(_corpus(), _config(kind), 1, 2), batches):
        resumed.load_state_dict(state)
        assert resumed.position == 60
        assert all(_same(resumed.next(), batch) for batch in expected)


@pytest.mark.parametrize("kind", ["gpt", "encoder"])
def test_the_same_global_batch_in_another_world(kind: str) -> None:
    three = [Batches(_corpus(), _config(kind, per_rank=2), rank, 3) for rank in range(3)]
    for batches in three:
        batches.next()
    state = three[0].state_dict()
    expected = [batches.next() for batches in three]
    two = [Batches(_corpus(), _config(kind, per_rank=3), rank, 2) for rank in range(2)]
    for batches in two:
        batches.load_state_dict(state)
    actual = [batches.next() for batches in two]
    assert torch.equal(torch.cat([batch.tokens for batch in expected]), torch.cat([batch.tokens for batch in actual]))
    assert torch.equal(torch.cat([batch.targets for batch in expected]), torch.cat([batch.targets for batch in actual]))


@pytest.mark.parametrize(("kind", "enough"), [("gpt", 49), ("encoder", 48)])
def test_the_corpus_must_fill_one_batch_of_all_ranks(kind: str, enough: int) -> None:
    Batches(_corpus(enough), _config(kind), 0, 3).next()
    with pytest.raises(DataError, match=rf"has {enough - 1} tokens.*3 ranks needs {enough} .*data\.paths"):
        Batches(_corpus(enough - 1), _config(kind), 0, 3)


def test_a_position_in_another_text_is_refused() -> None:
    state = Batches(_corpus(400), _config(), 0, 1).state_dict()
    with pytest.raises(DataError, match="not the one that the checkpoint was trained on"):
        Batches(_corpus(401), _config(), 0, 1).load_state_dict(state)


def test_batches_move_to_a_device(tmp_path: Path) -> None:
    batch = Batches(_corpus(), _config(), 0, 1).next()
    assert batch.to("meta").tokens.device.type == batch.to("meta").targets.device.type == "meta"
