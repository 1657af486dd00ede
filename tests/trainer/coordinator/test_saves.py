from dataclasses import replace
from datetime import UTC, datetime

from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import Committed, SaveFailed, ShardFile, ShardsWritten
from ringtrain.coordinator import saves
from ringtrain.coordinator.state import Action, Commit, Member, Save, Send, State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TRAINING = State(
    job="job",
    replicas=2,
    procs_per_replica=1,
    coordinator_id="id",
    generation=Generation(1, 2),
    members={0: Member(10, 1), 1: Member(11, 1)},
)


def file(rank: int) -> ShardFile:
    return ShardFile(path=f"rank-{rank}", size=1, sha256="")


def written(rank: int, round: int = 5) -> ShardsWritten:
    return ShardsWritten(rank=rank, generation="1.2", round=round, files=(file(rank),))


def after(state: State, *messages: ShardsWritten) -> tuple[State, tuple[Action, ...]]:
    for message in messages:
        state, _ = saves.written(state, message)
    return saves.next_commit(state)


def test_a_commit_begins_when_every_rank_has_written() -> None:
    state, actions = after(TRAINING, written(0))
    assert (state.committing, actions) == (None, ())
    state, actions = after(state, written(1))
    save = Save(Generation(1, 2), 5, {0: (file(0),), 1: (file(1),)}, {0: "", 1: ""})
    assert actions == (Commit(save),)
    assert state.committing == save


def test_a_rank_may_have_nothing_of_its_own() -> None:
    _, actions = after(TRAINING, written(0), ShardsWritten(rank=1, generation="1.2", round=5, files=()))
    assert [action.save.shards[1] for action in actions if isinstance(action, Commit)] == [()]


def test_ranks_that_hold_other_tensors_than_their_twins_make_no_checkpoint() -> None:
    layouts = {0: "a", 1: "b", 2: "a", 3: "b"}
    save = Save(Generation(1, 2), 5, dict.fromkeys(range(4), ()), layouts)
    assert saves.why_unfit(save, Mesh(data=2, pipeline=2)) == ""
    assert "ranks 0 and 1 hold different tensors" in saves.why_unfit(save, Mesh(data=4))
    other = replace(save, layouts={**layouts, 3: "c"})
    assert "ranks 1 and 3 hold different tensors" in saves.why_unfit(other, Mesh(data=2, pipeline=2))


def test_one_commit_at_a_time_and_the_oldest_first() -> None:
    state, actions = after(TRAINING, written(0, 10), written(0), written(1, 10), written(1))
    assert [action.save.round for action in actions if isinstance(action, Commit)] == [5]
    assert saves.next_commit(state)[1] == ()
    state, _ = saves.ended(state, "", NOW)
    _, actions = saves.next_commit(state)
    assert [action.save.round for action in actions if isinstance(action, Commit)] == [10]


def test_success_is_told_to_all_and_recorded() -> None:
    state, actions = saves.ended(after(TRAINING, written(0), written(1))[0], "", NOW)
    answer = Committed(generation="1.2", round=5)
    assert actions == (Send(10, answer), Send(11, answer))
    assert state.last_checkpoint is not None
    assert (state.last_checkpoint.round, state.last_checkpoint.time) == (5, NOW)
    assert state.notices == ()


def test_a_failed_commit_is_told_to_all_and_to_the_user() -> None:
    state, actions = saves.ended(after(TRAINING, written(0), written(1))[0], "no space", NOW)
    answer = Committed(generation="1.2", round=5, error="no space")
    assert actions == (Send(10, answer), Send(11, answer))
    assert state.last_checkpoint is None
    assert [notice.message for notice in state.notices] == ["the checkpoint of round 5 was given up: no space"]


def test_one_rank_that_fails_gives_the_checkpoint_up_once_and_for_all() -> None:
    failure = SaveFailed(rank=1, generation="1.2", round=5, reason="no space")
    state, _ = saves.written(TRAINING, written(0))
    state, actions = saves.failed(state, failure, NOW)
    answer = Committed(generation="1.2", round=5, error="rank 1: no space")
    assert actions == (Send(10, answer), Send(11, answer))
    assert saves.failed(state, failure, NOW) == (state, ())
    assert after(state, written(0), written(1))[1] == ()
    assert len(after(state, written(0, 10), written(1, 10))[1]) == 1


def test_the_answer_to_a_commit_names_its_own_generation() -> None:
    state = replace(after(TRAINING, written(0), written(1))[0], generation=None)
    _, actions = saves.ended(state, "", NOW)
    assert actions[0] == Send(10, Committed(generation="1.2", round=5))


def test_an_end_without_a_commit_is_nothing() -> None:
    assert saves.ended(TRAINING, "", NOW) == (TRAINING, ())


def test_a_rank_that_waits_no_more_does_not_disturb_a_commit() -> None:
    """Who heard of a failure now would remove files that the commit has just looked for."""
    state, _ = after(TRAINING, written(0), written(1))
    failure = SaveFailed(rank=1, generation="1.2", round=5, reason="it was not committed within 60 s")
    assert saves.failed(state, failure, NOW) == (state, ())
    former = replace(state, generation=Generation(1, 3))
    assert saves.failed(former, failure.model_copy(update={"generation": "1.3"}), NOW)[0].given_up == {5}
