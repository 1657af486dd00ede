from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ringtrain.contract.mesh import Mesh
from ringtrain.contract.parallelism import MAXIMUM_PIPELINE, ParallelismConfig


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pipeline": 2, "stages_per_rank": 2}, "stagesPerRank is of schedule Interleaved1F1B only"),
        ({"microbatches": 4}, "microbatches is of a pipeline"),
        ({"boundaries": (1,)}, "boundaries is of a pipeline"),
        ({"schedule": "Interleaved1F1B", "stages_per_rank": 2}, "stagesPerRank is of a pipeline"),
        ({"pipeline": 2, "sharding": "machine"}, "exclude each other"),
        ({"pipeline": 3, "boundaries": (2, 2)}, "must rise"),
        ({"pipeline": 2, "boundaries": (0,)}, "must rise, from 1 up"),
        ({"pipeline": 3, "boundaries": (2,)}, "has 1 entries, but 3 stages need 2"),
        ({"pipeline": 2, "schedule": "Interleaved1F1B", "boundaries": (2,)}, "has 1 entries, but 4 stages need 3"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ParallelismConfig(**fields)


def test_stages_are_those_of_one_pipeline() -> None:
    assert ParallelismConfig().stages == 1
    assert ParallelismConfig(schedule="Interleaved1F1B").stages == 1
    assert ParallelismConfig(pipeline=4).stages == 4
    assert ParallelismConfig(pipeline=4, schedule="Interleaved1F1B").stages == 8
    assert ParallelismConfig(pipeline=4, schedule="Interleaved1F1B", stages_per_rank=3).stages == 12


def test_data_parallelism_is_what_is_left_of_the_ranks() -> None:
    assert ParallelismConfig(pipeline=4).mesh(12, 4) == Mesh(data=3, pipeline=4)
    assert ParallelismConfig().mesh(12, 4) == Mesh(data=12, pipeline=1)


def test_the_ranks_of_a_machine_share_out_parameters() -> None:
    mesh = ParallelismConfig(sharding="machine").mesh(12, 4)
    assert mesh == Mesh(data=12, shards=4)
    assert mesh.copy_ranks(6) == (4, 5, 6, 7)
    assert mesh.twins(6) == (2, 6, 10)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 90))
def test_a_pipeline_fits_when_no_machine_has_parts_of_two_beside_a_whole_one(
    replicas: int, processes: int, pipeline: int
) -> None:
    misfit = ParallelismConfig(pipeline=pipeline).misfit(replicas, processes)
    world = replicas * processes
    machines_of = [
        {rank // processes for rank in range(first, first + pipeline)} for first in range(0, world, pipeline)
    ]
    whole = world % pipeline == 0
    inside = all(len(machines) == 1 for machines in machines_of)
    of_whole_machines = all(len(machines) * processes == pipeline for machines in machines_of)
    assert (misfit == "") == (whole and (inside or of_whole_machines))


@given(st.integers(1, 9999), st.integers(1, 64), st.integers(1, MAXIMUM_PIPELINE))
def test_what_is_said_to_fit_fits(replicas: int, processes: int, pipeline: int) -> None:
    misfit = ParallelismConfig(pipeline=pipeline).misfit(replicas, processes)
    if misfit:
        suggested = misfit.rpartition(". ")[2].removesuffix(" would fit").split(", ")
        assert suggested
        for size in map(int, suggested):
            assert ParallelismConfig(pipeline=size).misfit(replicas, processes) == ""


@pytest.mark.parametrize(
    ("fields", "batch", "count"),
    [
        ({}, 7, 1),
        ({"pipeline": 2}, 8, 8),
        ({"pipeline": 2}, 64, 8),
        ({"pipeline": 4}, 6, 6),
        ({"pipeline": 2, "microbatches": 2}, 8, 2),
        ({"pipeline": 4, "schedule": "GPipe"}, 17, 1),
        ({"pipeline": 2, "schedule": "Interleaved1F1B"}, 7, 1),
        ({"pipeline": 4, "schedule": "Interleaved1F1B"}, 48, 16),
    ],
)
def test_a_batch_is_cut_into_as_many_parts_as_are_of_use(fields: dict[str, Any], batch: int, count: int) -> None:
    assert ParallelismConfig(**fields).microbatches_of(batch) == count


@pytest.mark.parametrize(
    ("fields", "batch", "words"),
    [
        ({"pipeline": 2, "microbatches": 3}, 8, "microbatches 3 does not divide batch.perRank 8"),
        ({"pipeline": 4, "microbatches": 2}, 8, "does not suit schedule 1F1B: it needs at least as many parts"),
        ({"pipeline": 4}, 17, "batch.perRank 17 cannot be cut .* A multiple of 4 sequences can"),
        ({"pipeline": 4, "schedule": "Interleaved1F1B", "microbatches": 9}, 9, "a multiple of pipeline, 4"),
    ],
)
def test_a_batch_that_cannot_be_cut_says_what_to_do(fields: dict[str, Any], batch: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ParallelismConfig(**fields).microbatches_of(batch)


@given(st.integers(2, 9), st.sampled_from(["GPipe", "1F1B", "Interleaved1F1B"]), st.integers(1, 60), st.integers(1, 12))
def test_a_multiple_of_the_pipeline_can_always_be_cut(
    pipeline: int, schedule: Any, microbatch: int, rounds: int
) -> None:
    batch = pipeline * rounds * microbatch
    chosen = ParallelismConfig(pipeline=pipeline, schedule=schedule).microbatches_of(batch)
    assert batch % chosen == 0
    assert pipeline <= chosen <= 4 * pipeline
    told = ParallelismConfig(pipeline=pipeline, schedule=schedule, microbatches=pipeline * rounds)
    assert told.microbatches_of(batch) == pipeline * rounds
