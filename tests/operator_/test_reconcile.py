import asyncio
from datetime import timedelta

import pytest

from operator_.plan.builders import KEY, NOW
from operator_.plan.hostile_cluster import ApiDown, HostileCluster, Killed, Trouble
from operator_.plan.hostile_world import TTL_SECONDS, World
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.plan.observed import JobKey
from ringtrain_operator.reconcile import Pass, reconcile


def passes(world: World, trouble: Trouble | None = None) -> Pass:
    return asyncio.run(reconcile(HostileCluster(world, trouble, 0), KEY, NOW))


class Absent(HostileCluster):
    async def get_job(self, key: JobKey) -> None:
        return None


def test_a_pass_persists_then_creates_then_tells() -> None:
    world = World()
    done = passes(world)
    assert done.status == world.status
    assert done.requeue_after is not None
    assert sorted(world.pods) == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]
    assert world.service
    assert [event.reason for event in world.events] == ["Started"]


def test_a_gang_is_created_when_there_is_room_for_all() -> None:
    world = World(gang="Operator", room=2)
    passes(world)
    assert (world.pods, [event.reason for event in world.events]) == ({}, ["NoRoom"])
    world.room = 3
    passes(world)
    assert sorted(world.pods) == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]
    assert world.events[-1].reason == "Started"


def test_a_job_that_does_not_exist_needs_nothing() -> None:
    assert asyncio.run(reconcile(Absent(World(), None, 0), KEY, NOW)) == Pass(status=None)


def test_a_status_that_did_not_change_is_not_written() -> None:
    world = World()
    passes(world)
    passes(world)
    version = world.version
    passes(world)
    assert world.version == version


def test_nothing_is_done_after_a_conflict() -> None:
    world = World()
    assert passes(world, Trouble(call=3, kind="conflict", after=False)).requeue_after == 0
    assert (world.pods, world.service, world.events) == ({}, False, [])
    passes(world)
    assert len(world.pods) == 3


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", range(3, 9))
def test_an_operator_that_is_killed_at_any_call_goes_on_where_it_was(call: int, after: bool) -> None:
    world = World()
    with pytest.raises(Killed):
        passes(world, Trouble(call=call, kind="killed", after=after))
    passes(world)
    assert sorted(world.pods) == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]
    assert (world.status.epoch, world.status.restarts) == (0, 0)


def test_one_refused_create_stops_neither_the_others_nor_the_events() -> None:
    world = World()
    with pytest.raises(ApiDown):
        passes(world, Trouble(call=5, kind="error", after=False))
    assert len(world.pods) == 2
    assert [event.reason for event in world.events] == ["Started"]
    passes(world)
    assert len(world.pods) == 3


def test_pods_are_not_created_before_what_they_need() -> None:
    world = World()
    with pytest.raises(ApiDown):
        passes(world, Trouble(call=4, kind="error", after=False))
    assert (world.service, world.pods) == (False, {})


def finished(ttl: int) -> World:
    """A world whose job has ended `ttl` seconds ago."""
    over = TrainingJobStatus(
        phase=JobPhase.SUCCEEDED, completion_time=NOW - timedelta(seconds=ttl), observed_generation=1
    )
    return World(status=over)


def test_a_job_whose_time_is_over_is_deleted() -> None:
    world = finished(TTL_SECONDS - 1)
    assert passes(world).requeue_after == 1
    assert not world.job_deleted
    world = finished(TTL_SECONDS)
    passes(world)
    assert world.job_deleted
    assert passes(world) == Pass(status=None)


def test_a_job_that_was_changed_meanwhile_is_looked_at_again_before_it_is_deleted() -> None:
    world = finished(TTL_SECONDS)
    assert passes(world, Trouble(call=3, kind="conflict", after=False)).requeue_after == 0
    assert not world.job_deleted
