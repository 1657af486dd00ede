from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.mesh import Mesh

PIPELINES = st.builds(Mesh, data=st.integers(1, 12), pipeline=st.integers(1, 12))
SHARDED = st.builds(
    lambda copies, shards: Mesh(data=copies * shards, shards=shards), st.integers(1, 12), st.integers(1, 12)
)


@given(PIPELINES)
def test_every_rank_has_a_place_of_its_own(mesh: Mesh) -> None:
    places = [mesh.place(rank) for rank in range(mesh.size)]
    assert places == [(data, stage) for data in range(mesh.data) for stage in range(mesh.pipeline)]


@given(PIPELINES | SHARDED)
def test_copies_of_the_model_and_twins_each_divide_the_ranks(mesh: Mesh) -> None:
    copies = mesh.size // mesh.parts
    for parts_of, parts, size in (
        (mesh.copy_ranks, copies, mesh.parts),
        (mesh.twins, mesh.parts, copies),
    ):
        found = {parts_of(rank) for rank in range(mesh.size)}
        assert sorted(rank for part in found for rank in part) == list(range(mesh.size))
        assert len(found) == parts
        assert {len(part) for part in found} == {size}
        assert all(rank in parts_of(rank) for rank in range(mesh.size))


@given(PIPELINES)
def test_copy_ranks_share_a_data_index_and_twins_a_stage(mesh: Mesh) -> None:
    for rank in range(mesh.size):
        data, stage = mesh.place(rank)
        assert [mesh.place(other) for other in mesh.copy_ranks(rank)] == [(data, n) for n in range(mesh.pipeline)]
        assert [mesh.place(other) for other in mesh.twins(rank)] == [(n, stage) for n in range(mesh.data)]


def test_a_pipeline_is_consecutive_ranks() -> None:
    mesh = Mesh(data=2, pipeline=4)
    assert mesh.copy_ranks(5) == (4, 5, 6, 7)
    assert mesh.twins(5) == (1, 5)


@given(SHARDED)
def test_ranks_with_the_same_shard_are_twins(mesh: Mesh) -> None:
    for rank in range(mesh.size):
        assert [mesh.part(other) for other in mesh.copy_ranks(rank)] == list(range(mesh.shards))
        assert {mesh.part(other) for other in mesh.twins(rank)} == {mesh.part(rank)}
