from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.data.batch import IGNORED, Batch
from ringtrain.models import LanguageModel, build_model, outline
from ringtrain.models.language_model import TIED
from ringtrain.models.layers import Attention, FeedForward
from ringtrain.models.stage import cut

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
    return build_model(_config(kind, **fields), VOCABULARY, seed=3)


def _config(kind: str, **fields: object) -> ModelConfig:
    return ModelConfig.model_validate({"kind": kind, "size": "nano", "context_length": 16, **fields})


def _tokens(batch: int = 2, length: int = 16) -> Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_all_parameters(kind: str) -> None:
    torch.manual_seed(1)
    first = _model(kind).state_dict()
    torch.manual_seed(2)
    second, other = _model(kind).state_dict(), build_model(_config(kind), VOCABULARY, seed=4).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(other[TIED], first[TIED])
    # Tensors of one shape are drawn apart.
    assert not torch.equal(first["sublayers.0.project_in.weight"], first["sublayers.2.project_in.weight"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("boundaries", [(1,), (2, 3), (1, 2, 3)])
def test_stages_are_parts_of_the_same_model(kind: str, boundaries: tuple[int, ...]) -> None:
    whole, stages = _model(kind), cut(4, boundaries)
    parts = [build_model(_config(kind), VOCABULARY, 3, [stage]) for stage in stages]
    x = tokens = _tokens()
    for stage, part in zip(stages, parts, strict=True):
        x = part.run(stage, x)
    assert torch.equal(x, whole(tokens))
    held = [name for part in parts for name in part.state_dict()]
    assert sorted([*whole.state_dict(), TIED]) == sorted(held)
    for part in parts:
        for name, value in part.state_dict().items():
            assert torch.equal(value, whole.state_dict()[name])


def test_one_rank_can_hold_several_stages() -> None:
    stages = cut(4, (1, 2, 3))
    model = build_model(_config("gpt"), VOCABULARY, 3, [stages[0], stages[2]])
    assert {name.split(".")[1] for name in model.state_dict() if name.startswith("sublayers")} == {"0", "2"}
    assert not any(name.startswith("head") for name in model.state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_activation_checkpointing_changes_no_gradient(kind: str) -> None:
    gradients = []
    for again in (False, True):
        torch.manual_seed(5)
        model = _model(kind, dropout=0.2)
        model.activation_checkpointing = again
        loss, _ = model.loss(Batch(_tokens(), _tokens().flip(1)))
        loss.backward()  # type: ignore[no-untyped-call]
        gradients.append([parameter.grad for parameter in model.parameters()])
    for plain, recomputed in zip(*gradients, strict=True):
        assert plain is not None
        assert recomputed is not None
        assert torch.equal(plain, recomputed)


@pytest.mark.parametrize("kind", KINDS)
def test_an_outline_has_the_names_and_shapes_of_the_model(kind: str) -> None:
    drawn, outlined = _model(kind).state_dict(), outline(_config(kind), VOCABULARY).state_dict()
    assert {name: value.shape for name, value in drawn.items()} == {name: t.shape for name, t in outlined.items()}
    assert all(value.is_meta for value in outlined.values())


@pytest.mark.parametrize("kind", KINDS)
def test_sublayers_are_one_flat_list(kind: str) -> None:
    model = _model(kind, layers=3)
    assert [type(sublayer) for sublayer in model.sublayers.values()] == [Attention, FeedForward] * 3


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
