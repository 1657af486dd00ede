from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.addresses import Addresses
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.environment import BadEnvironment, CheckpointSettings, ReplicaEnvironment
from ringtrain.contract.faults import parse_faults
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.phases import PhaseTimeouts
from ringtrain.contract.preflight import Preflight
from ringtrain.contract.trainer_config import DataConfig, TrainerConfig
from support.environments import replica_environment

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=20)
SECONDS = st.floats(0.1, 1e6)
ENVIRONMENTS = st.builds(
    ReplicaEnvironment,
    job=st.from_regex(r"[a-z]{1,20}", fullmatch=True),
    namespace=st.from_regex(r"[a-z]{1,20}", fullmatch=True),
    replica=st.integers(0, 3),
    replicas=st.integers(4, 9),
    procs_per_replica=st.integers(1, 8),
    epoch=st.integers(0, 100),
    addresses=st.sampled_from([Addresses("loopback", "127.3"), Addresses("dns", "job.job.default.svc")]),
    device=st.sampled_from(["cuda", "cpu"]),
    timeouts=st.builds(PhaseTimeouts, starting=SECONDS, training=SECONDS, checkpointing=SECONDS),
    max_restarts=st.integers(0, 100),
    preflight=st.none() | st.builds(Preflight, slower_than=st.floats(1.1, 9)),
    checked=st.booleans(),
    grace_seconds=SECONDS,
    termination_log=TEXT,
    checkpoint=st.none() | st.builds(CheckpointSettings, directory=TEXT, every=st.integers(1, 9)),
    parallelism=st.sampled_from(
        [ParallelismConfig(), ParallelismConfig(pipeline=2, boundaries=(3,), precision="bf16")]
    ),
    trainer=st.none()
    | st.builds(TrainerConfig, rounds=st.integers(1, 9), data=st.builds(DataConfig, paths=st.tuples(TEXT))),
    command=st.lists(TEXT, max_size=4).map(tuple),
    faults=st.sampled_from(["", "kill:rank=1,round=2", "exit:rank=0,round=1,code=78;hang:rank=1,round=9"]).map(
        parse_faults
    ),
)


@given(ENVIRONMENTS)
def test_environments_survive_the_round_trip(environment: ReplicaEnvironment) -> None:
    assert ReplicaEnvironment.from_env(environment.to_env()) == environment


def good() -> ReplicaEnvironment:
    return replica_environment(replica=2, replicas=3, procs_per_replica=4, addresses=Addresses("loopback", "127.3"))


def test_ranks_are_ordered_by_replica() -> None:
    assert good().world_size == 12
    assert [good().rank(local) for local in range(4)] == [8, 9, 10, 11]


@pytest.mark.parametrize(
    "key", ["JOB", "NAMESPACE", "REPLICA", "REPLICAS", "PROCS_PER_REPLICA", "EPOCH", "ADDRESSES", "DEVICE"]
)
def test_a_missing_variable_is_named(key: str) -> None:
    env = good().to_env()
    del env[f"RINGTRAIN_{key}"]
    with pytest.raises(BadEnvironment, match=f"RINGTRAIN_{key} is not set"):
        ReplicaEnvironment.from_env(env)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("REPLICA", "two"),
        ("ADDRESSES", "nowhere"),
        ("DEVICE", "tpu"),
        ("TIMEOUTS", '{"training": -1}'),
        ("PREFLIGHT", '{"slowerThan": 1}'),
        ("GRACE_SECONDS", "soon"),
        ("CHECKPOINT", "{}"),
        ("PARALLELISM", '{"pipeline": 0}'),
        ("TRAINER", '{"rounds": 0}'),
        ("COMMAND", "["),
        ("FAULTS", "burn:rank=1,round=1"),
    ],
)
def test_a_wrong_variable_is_a_clear_error(key: str, value: str) -> None:
    with pytest.raises(BadEnvironment, match="environment variable is wrong"):
        ReplicaEnvironment.from_env(good().to_env() | {f"RINGTRAIN_{key}": value})


def test_an_empty_command_is_the_built_in_trainer() -> None:
    assert "RINGTRAIN_COMMAND" not in good().to_env()
    assert replace(good(), command=("python", "train.py")).to_env()["RINGTRAIN_COMMAND"] == '["python", "train.py"]'


def test_what_is_as_by_default_is_not_told() -> None:
    """An older trainer would refuse a field that it does not know."""
    told = replace(good(), timeouts=PhaseTimeouts(training=7.0), communication=CommunicationConfig()).to_env()
    assert (told["RINGTRAIN_TIMEOUTS"], told["RINGTRAIN_COMMUNICATION"]) == ('{"training":7.0}', "{}")
