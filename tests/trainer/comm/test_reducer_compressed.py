"""The reducer with every codec: several types of parameters, warm-up, error feedback, faults."""

import pytest
import torch

from ringtrain.contract.communication import CommunicationConfig
from trainer.comm import reducer_bodies as bodies
from trainer.comm.ranks import Crew

pytestmark = pytest.mark.distributed

CONFIGS = [
    CommunicationConfig(codec="none"),
    CommunicationConfig(codec="none", overlap=False, bucket_mebibytes=0.001),
    CommunicationConfig(codec="bf16", algorithm="ring"),
    CommunicationConfig(codec="zfp", algorithm="ring", error_feedback="plain", verify=True, warmup_rounds=0),
    CommunicationConfig(codec="zfp", rate=8, bucket_mebibytes=0.01, warmup_rounds=2),
    CommunicationConfig(codec="int4", rotate=True, error_feedback="damped", algorithm="direct", warmup_rounds=0),
]
FEEDBACK = CommunicationConfig(codec="zfp", error_feedback="plain", warmup_rounds=0)


@pytest.mark.parametrize(("size", "processes"), [(3, 1), (4, 2)])
def test_all_ranks_have_the_same_gradients(crew: Crew, size: int, processes: int) -> None:
    results = crew.run(size, bodies.mixed, processes, CONFIGS)
    for index, config in enumerate(CONFIGS):
        found = [result[index] for result in results]
        assert len({tuple(digests) for digests, _, _ in found}) == 1
        residuals = found[0][2]
        assert bool(residuals) == (config.error_feedback is not None)
    plain, unlapped = results[0][0], results[0][1]
    assert plain[0] == unlapped[0] or size > 2  # Other buckets: another order of additions.
    wire = {index: results[0][index][1].inter for index in range(len(CONFIGS))}
    assert wire[0].sent_bytes > wire[2].sent_bytes > wire[3].sent_bytes
    # The first rounds of a warm-up are those of bf16, or would be if buckets were the same.
    assert results[0][4][0][0] != results[0][3][0][0]


def test_gradients_are_close_to_the_exact_ones(crew: Crew) -> None:
    exact = crew.run(2, bodies.gradients, CommunicationConfig(codec="none"))[0]
    for config, bound in (
        (CommunicationConfig(codec="bf16"), 0.01),
        (CommunicationConfig(codec="zfp", rate=8, warmup_rounds=0), 0.1),
        (CommunicationConfig(codec="zfp", warmup_rounds=0), 0.6),
        (CommunicationConfig(codec="int4", warmup_rounds=0), 0.3),
        (CommunicationConfig(codec="zfp", warmup_rounds=1), 0.01),
    ):
        found = crew.run(2, bodies.gradients, config)[0]
        for name, wanted in exact.items():
            difference = (torch.tensor(found[name]) - torch.tensor(wanted)).norm()
            small = name.endswith("bias")
            assert difference <= (1e-6 if small else bound) * torch.tensor(wanted).norm(), name


def test_residuals_are_state(crew: Crew) -> None:
    results = crew.run(2, bodies.resumed, FEEDBACK)
    for unbroken, taken_over, forgotten in results:
        assert unbroken == taken_over
        assert forgotten[0] != unbroken[0]
    assert results[0] == results[1]


def test_what_is_not_finite_is_seen_by_all_and_leaves_no_trace(crew: Crew) -> None:
    """In any parameter of any type, whether it is sent exactly, as bf16, or encoded."""
    configs = [
        CommunicationConfig(codec="none"),
        CommunicationConfig(codec="bf16"),
        CommunicationConfig(codec="zfp", warmup_rounds=1),
        CommunicationConfig(codec="zfp", error_feedback="plain", warmup_rounds=1),
        CommunicationConfig(codec="int4", error_feedback="damped", warmup_rounds=1),
    ]
    results = crew.run(2, bodies.injected, configs)
    assert repr(results[0]) == repr(results[1])
    used = [name for name, _ in bodies.Mixed().named_parameters() if not name.startswith("unused")]
    seen = {name for _, _, name, _, _ in results[0]}
    assert seen >= set(used)
    for codec, round, name, bad, not_finite in results[0]:
        if name not in used:
            assert not_finite == []
        else:
            assert name in not_finite, (codec, round, name, bad)
            # A codec that loses much makes NaN of the whole part that it encodes.
            assert not_finite == [name] or (codec in ("zfp", "int4") and round == 2)


def test_a_loss_scale_may_change(crew: Crew) -> None:
    configs = [
        CommunicationConfig(codec=codec, error_feedback=feedback, warmup_rounds=0)
        for codec in ("zfp", "int4")
        for feedback in ("plain", "damped")
    ]
    assert crew.run(2, bodies.rescaled, configs) == [[True] * len(configs)] * 2


@pytest.mark.parametrize("config", [CommunicationConfig(), FEEDBACK], ids=["warm-up", "feedback"])
def test_a_grad_scaler_skips_the_step_of_all_ranks(crew: Crew, config: CommunicationConfig) -> None:
    results = crew.run(2, bodies.with_scaler, config)
    assert results[0] == results[1]
    assert [scale for scale, _ in results[0]] == [256, 128, 128, 128]
    first, second, third, fourth = (digest for _, digest in results[0])
    assert first == second
    assert len({second, third, fourth}) == 3


def test_the_codec_of_a_round_is_the_one_that_it_used(crew: Crew) -> None:
    configs = [
        CommunicationConfig(codec="zfp", rate=5, warmup_rounds=2),
        CommunicationConfig(codec="int4", warmup_rounds=0),
        CommunicationConfig(codec="none", warmup_rounds=2),
    ]
    assert crew.run(1, bodies.codecs, configs) == [[["bf16", "bf16", "zfp-5"], ["int4-128"] * 3, ["none"] * 3]]


def test_a_flipped_bit_is_noticed(crew: Crew) -> None:
    told = "the ranks of part 0 of the model hold different sums of gradients: a fault of Ringtrain's own"
    assert crew.run(2, bodies.flipped) == [told] * 2


def test_comparing_checksums_is_exposed_communication(crew: Crew) -> None:
    assert crew.run(1, bodies.verified) == [5]


def test_all_that_comes_after_is_that_of_a_plain_loop(crew: Crew) -> None:
    assert crew.run(2, bodies.like_a_plain_loop) == [[True, True]] * 2


def test_what_is_frozen_stays_where_it_is(crew: Crew) -> None:
    moves = (True, True)
    assert crew.run(2, bodies.frozen) == [[moves, moves, (False, True), moves]] * 2


def test_no_round_begins_while_sums_of_a_failed_one_may_run(crew: Crew) -> None:
    for told in crew.run(2, bodies.unfinished):
        assert told.startswith("round 2 begins, but sums of the round before were started and never waited for")


def test_gradients_that_cannot_be_summed_are_refused(crew: Crew) -> None:
    (told,) = crew.run(1, bodies.refused)
    double, sparse = told
    assert "parameter bias is float64" in double
    assert sparse == (
        "the gradient of weight is sparse, and only dense ones can be summed: build its layer with sparse=False"
    )


def test_a_model_may_have_no_gradients(crew: Crew) -> None:
    assert crew.run(2, bodies.without_gradients) == [[4, 4, 4]] * 2
