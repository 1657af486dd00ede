"""What is measured of encoding: one message, by its own decoding."""

import pytest
import torch

from ringtrain.comm.codec.build import build_codecs
from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.collectives.message import Messages
from ringtrain.contract.communication import CommunicationConfig

NUMEL = 4096


@pytest.fixture
def codec() -> Codec:
    return build_codecs(CommunicationConfig(codec="int4")).main


def sent(codec: Codec, values: torch.Tensor, residual: torch.Tensor | None = None, *, sample: bool = True) -> Messages:
    messages = Messages(codec, residual, 1.0, sample=sample)
    for message in messages.allocate(2, NUMEL):
        messages.write(values, 0, message)
    return messages


def test_the_first_message_is_measured(codec: Codec) -> None:
    values = torch.randn(NUMEL, generator=torch.Generator().manual_seed(1))
    messages = sent(codec, values)
    data, decoded = torch.zeros(codec.encoded_bytes(NUMEL), dtype=torch.uint8), torch.empty(NUMEL)
    assert codec.encode(values, data)
    codec.decode(data, decoded)
    assert messages.sampled_square == pytest.approx(float(values.square().sum()))
    assert messages.lost_square == pytest.approx(float((decoded - values).square().sum()))
    assert 0 < messages.lost_square < 0.1 * messages.sampled_square


def test_squares_may_pass_float32(codec: Codec) -> None:
    messages = sent(codec, torch.full((NUMEL,), 2.0**100))
    assert messages.sampled_square == pytest.approx(NUMEL * 2.0**200)
    assert 0 <= messages.lost_square < 0.1 * messages.sampled_square


def test_with_what_was_lost_before(codec: Codec) -> None:
    values, residual = torch.zeros(NUMEL), torch.ones(NUMEL)
    assert sent(codec, values, residual).sampled_square == pytest.approx(NUMEL)


def test_not_unasked_and_not_of_numbers_that_are_not_finite(codec: Codec) -> None:
    assert sent(codec, torch.ones(NUMEL), sample=False).sampled_square == 0
    values = torch.ones(NUMEL)
    values[7] = torch.inf
    messages = sent(codec, values)
    assert (messages.sampled_square, messages.lost_square) == (0, 0)
