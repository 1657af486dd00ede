from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.data.batch import IGNORED, Batch
from ringtrain.models import LanguageModel, build_model
from ringtrain.models.layers import Attention, FeedForward

VOCABULARY = 50
KINDS = ["gpt", "encoder"]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """More threads than free cores would spend these tests waiting for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _model(kind: str, **fields: object) -> LanguageModel:
    torch.manual_seed(3)
    config = ModelConfig.model_validate({"kind": kind, "size": "nano", "context_length": 16, **fields})
    return build_model(config, VOCABULARY)


def _tokens(batch: int = 2, length: int = 16) -> Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_all_parameters(kind: str) -> None:
    first, second = _model(kind).state_dict(), _model(kind).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    torch.manual_seed(4)
    other = build_model(ModelConfig(kind="gpt" if kind == "gpt" else "encoder", size="nano"), VOCABULARY)
    assert not torch.equal(other.state_dict()["embedding.tokens.weight"], first["embedding.tokens.weight"])


@pytest.mark.parametrize("kind", KINDS)
def test_sublayers_are_one_flat_list(kind: str) -> None:
    model = _model(kind, layers=3)
    assert [type(sublayer) for sublayer in model.sublayers] == [Attention, FeedForward] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_are_tied(kind: str) -> None:
    model = _model(kind)
    assert not any(
        parameter.shape == (VOCABULARY, 64) for name, parameter in model.named_parameters() if "head" in name
    )
    logits = model(_tokens())
    assert logits.shape == (2, 16, VOCABULARY)


def _seen_by(model: LanguageModel, position: int) -> set[int]:
    """Positions whose token changes the logits of `position`."""
    model.eval()
    tokens = _tokens(batch=1)
    plain = model(tokens)[0, position]
    seen = set()
    for other in range(tokens.shape[1]):
        changed = tokens.clone()
        changed[0, other] = (changed[0, other] + 1) % VOCABULARY
        if not torch.equal(model(changed)[0, position], plain):
            seen.add(other)
    return seen


def test_a_decoder_sees_only_the_past() -> None:
    assert _seen_by(_model("gpt"), 6) == set(range(7))


def test_an_encoder_sees_everything() -> None:
    assert _seen_by(_model("encoder"), 6) == set(range(16))


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_a_sum_over_targets_that_count(kind: str) -> None:
    model = _model(kind)
    tokens, targets = _tokens(), _tokens().flip(1).clone()
    targets[0, :5] = IGNORED
    loss, count = model.loss(Batch(tokens, targets))
    assert (loss.dtype, loss.shape) == (torch.float32, ())
    assert (count.dtype, count.item()) == (torch.int64, 27)
    parts = [model.loss(Batch(tokens[row : row + 1], targets[row : row + 1]))[0] for row in range(2)]
    torch.testing.assert_close(loss, parts[0] + parts[1])
    ignored, none = model.loss(Batch(tokens, torch.full_like(targets, IGNORED)))
    assert (ignored.item(), none.item()) == (0.0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_model_knows_nothing(kind: str) -> None:
    model = _model(kind)
    loss, count = model.loss(Batch(_tokens(), _tokens().flip(1)))
    assert (loss / count).item() == pytest.approx(torch.log(torch.tensor(VOCABULARY)).item(), rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_learns(kind: str) -> None:
    model = _model(kind)
    batch = Batch(_tokens(), _tokens().flip(1))
    losses = []
    for _ in range(20):
        loss, count = model.loss(batch)
        (loss / count).backward()  # type: ignore[no-untyped-call]
        losses.append((loss / count).item())
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.sub_(parameter.grad, alpha=0.1)
        model.zero_grad(set_to_none=True)
    assert losses[-1] < 0.7 * losses[0]


def test_dropout_acts_in_training_only() -> None:
    model = _model("gpt", dropout=0.5)
    tokens = _tokens()
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


def test_a_sequence_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="17 tokens, but contextLength is 16"):
        _model("gpt")(_tokens(length=17))
