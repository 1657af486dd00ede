"""The advisor's numbers are what the trainer does: the operator may not import it, so this is where they meet."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtrain.comm import fabric, segments
from ringtrain.comm.buckets import ParameterInfo, parameter_infos
from ringtrain.comm.buckets import layout as real_layout
from ringtrain.comm.codec.build import build_codecs
from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.zfp import has_numba
from ringtrain.comm.collectives.message import Messages
from ringtrain.comm.lane import ALGORITHMS
from ringtrain.comm.segments import Cut
from ringtrain.comm.transport.memory import memory_transports
from ringtrain.contract.communication import Algorithm, CommunicationConfig
from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.data.tokenizer import BytesTokenizer
from ringtrain.models import build_model
from ringtrain_operator.advisor import layout, model
from ringtrain_operator.advisor.formats import format_of
from ringtrain_operator.advisor.layout import Bucket, Parameter
from ringtrain_operator.advisor.model import Hardware, Setting, noise, predict
from trainer.comm.members import together

CONFIGS: list[dict[str, Any]] = [
    {"codec": "none"}, {"codec": "bf16"}, {"codec": "zfp"}, *({"codec": "zfp", "rate": rate} for rate in range(3, 17)),
    {"codec": "int4"}, {"codec": "int4", "block": 32}, {"codec": "int4", "block": 128, "rotate": True},
]  # fmt: skip
by_config = pytest.mark.parametrize("fields", CONFIGS, ids=lambda fields: "-".join(map(str, fields.values())))


def codec_of(fields: dict[str, Any]) -> tuple[CommunicationConfig, Codec]:
    config = CommunicationConfig.model_validate(fields)
    return config, build_codecs(config).main


@by_config
@settings(deadline=None)
@given(numel=st.integers(0, 100_000))
def test_messages_are_as_large(fields: dict[str, Any], numel: int) -> None:
    config, codec = codec_of(fields)
    written = format_of(config)
    assert (written.name, written.block) == (codec.name, codec.block)
    assert written.message_bytes(numel) == Messages(codec, None, 0.0).bytes(numel)
    assert written.bits * codec.block == 8 * codec.encoded_bytes(codec.block)


@by_config
def test_one_encoding_loses_as_much(fields: dict[str, Any]) -> None:
    config, codec = codec_of(fields)
    if codec.name.startswith("zfp") and not has_numba():
        pytest.skip("without numba zfp decodes to other values, 1.3 dB farther off")
    values, found = torch.randn(1 << 16, generator=torch.Generator().manual_seed(3)), torch.empty(1 << 16)
    data = torch.zeros(codec.encoded_bytes(len(values)), dtype=torch.uint8)
    assert codec.encode(values, data)
    codec.decode(data, found)
    assert float((found - values).norm() / values.norm()) == pytest.approx(format_of(config).error, rel=0.03, abs=1e-9)


def all_reduce(machines: int, algorithm: str, codec: Codec, numel: int) -> tuple[list[int], float]:
    """(bytes that each member sent, error of the sum), of independent Gaussian values."""
    generator = torch.Generator().manual_seed(5)
    values = [torch.randn(numel, generator=generator) for _ in range(machines)]
    total = torch.stack([each.double() for each in values]).sum(0)
    reduce: Callable[..., int] = ALGORITHMS[algorithm]
    sent = together(
        [
            partial(reduce, each, Messages(codec, None, 0.0), transport)
            for each, transport in zip(values, memory_transports(machines), strict=True)
        ]
    )
    return sent, float((values[0].double() - total).norm() / total.norm())


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
@pytest.mark.parametrize("machines", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["bf16", "int4"])
def test_noise_of_the_sum(name: str, machines: int, algorithm: Algorithm) -> None:
    config, codec = codec_of({"codec": name})
    _, error = all_reduce(machines, algorithm, codec, machines * 1 << 13)
    if machines > 1:
        assert error == pytest.approx(noise(format_of(config), algorithm, machines), rel=0.06)
    else:
        assert noise(format_of(config), algorithm, machines) == 0


@pytest.mark.parametrize(("algorithm", "rel"), [("ring", 0.1), ("direct", 0.06)])
@pytest.mark.skipif(not has_numba(), reason="without numba zfp decodes to other values")
def test_noise_of_the_sum_with_zfp(algorithm: Algorithm, rel: float) -> None:
    config, codec = codec_of({"codec": "zfp", "rate": 5})
    _, error = all_reduce(4, algorithm, codec, 1 << 15)
    assert error == pytest.approx(noise(format_of(config), algorithm, 4), rel=rel)


@settings(deadline=None, max_examples=60)
@given(
    fields=st.sampled_from(CONFIGS),
    algorithm=st.sampled_from(["ring", "direct"]),
    machines=st.integers(2, 40),
    processes=st.integers(1, 9),
    buckets=st.lists(st.builds(Bucket, st.integers(1, 30_000_000), st.booleans()), min_size=1, max_size=4),
)
def test_machines_send_as_many_bytes(
    fields: dict[str, Any], algorithm: Algorithm, machines: int, processes: int, buckets: list[Bucket]
) -> None:
    config, codec = codec_of(fields)
    exact = build_codecs(config).exact
    sent = 0
    for bucket in buckets:
        used = exact if bucket.exact else codec
        cut = Cut(machines, processes, used.block)
        for segment in cut.segments(cut.padded(bucket.values)):
            message = Messages(used, None, 0.0).bytes(segment.numel // (machines * processes))
            sent += processes * 2 * (machines - 1) * message
    setting = Setting(
        buckets=buckets, machines=machines, processes=processes, algorithm=algorithm, format=format_of(config),
        hardware=Hardware(link_bits=1e9), compute_seconds=1.0,
    )  # fmt: skip
    assert predict(setting).sent_bytes == sent


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
@pytest.mark.parametrize("machines", [2, 3, 5])
def test_collectives_send_what_was_counted(machines: int, algorithm: Algorithm) -> None:
    config, codec = codec_of({"codec": "zfp"})
    numel = machines * 64 * 7
    sent, _ = all_reduce(machines, algorithm, codec, numel)
    setting = Setting(
        buckets=[Bucket(numel)], machines=machines, processes=1, algorithm=algorithm, format=format_of(config),
        hardware=Hardware(link_bits=1e9), compute_seconds=1.0,
    )  # fmt: skip
    assert sent == [predict(setting).sent_bytes] * machines


MODELS: list[dict[str, Any]] = [
    {"size": "nano"},
    {"size": "tiny", "context_length": 64},
    {"kind": "encoder", "size": "nano"},
    {"kind": "encoder", "size": "nano", "width": 72, "heads": 3, "layers": 5},
    {"size": "nano", "width": 16, "heads": 1},
]


@pytest.mark.parametrize("fields", MODELS, ids=str)
@pytest.mark.parametrize("vocabulary", [BytesTokenizer.vocabulary, 1000])
def test_built_in_models_have_these_parameters(fields: dict[str, Any], vocabulary: int) -> None:
    config = ModelConfig.model_validate(fields)
    infos = parameter_infos(build_model(config, vocabulary, seed=0))
    assert layout.built_in(config, vocabulary) == tuple(Parameter(info.numel, info.exact) for info in infos)


@pytest.mark.parametrize("bucket_mebibytes", [0.01, 0.1, 1.0, 4.0])
def test_a_models_gradients_lie_in_these_buckets(bucket_mebibytes: float) -> None:
    config = ModelConfig(size="tiny")
    infos = parameter_infos(build_model(config, 257, seed=0))
    same_buckets(infos, layout.built_in(config, 257), bucket_mebibytes)


@given(
    shapes=st.lists(st.sampled_from([(1,), (7,), (2000,), (10, 20), (40, 50), (2, 3, 400), (300, 90)]), max_size=20),
    bucket_bytes=st.integers(1, 30_000),
)
def test_any_gradients_lie_in_these_buckets(shapes: list[tuple[int, ...]], bucket_bytes: int) -> None:
    infos = tuple(ParameterInfo(f"p{index}", shape, torch.float32) for index, shape in enumerate(shapes))
    same_buckets(infos, tuple(Parameter(info.numel, info.exact) for info in infos), bucket_bytes / 2**20)


def same_buckets(infos: tuple[ParameterInfo, ...], parameters: tuple[Parameter, ...], bucket_mebibytes: float) -> None:
    real = real_layout(infos, int(bucket_mebibytes * 2**20))
    assert layout.buckets(parameters, bucket_mebibytes) == tuple(Bucket(each.numel, each.exact) for each in real)


def test_constants_are_the_trainers() -> None:
    assert model.LANES == fabric.LANES
    assert model.PART_VALUES == segments.PART_VALUES
    assert BytesTokenizer.vocabulary == layout.BYTES_VOCABULARY
