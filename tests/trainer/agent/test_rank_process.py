from dataclasses import replace

from ringtrain.agent.rank_process import rank_environment
from ringtrain.contract.addresses import Addresses
from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.generation import Generation
from support.environments import replica_environment

REPLICA = replica_environment(
    replica=1, replicas=3, procs_per_replica=2, epoch=4, addresses=Addresses("dns", "gpt.gpt.team.svc"), max_restarts=7
)


def test_a_rank_is_told_what_torchrun_would_tell_it() -> None:
    told = rank_environment(REPLICA, 1, Generation(4, 2))
    port = told.pop("MASTER_PORT")
    assert port == str(REPLICA.addresses.master_port(Generation(4, 2)))
    assert port != rank_environment(REPLICA, 1, Generation(4, 3))["MASTER_PORT"]
    assert told == {
        "RINGTRAIN_FAULTS": "",
        "RANK": "3",
        "ROLE_RANK": "3",
        "WORLD_SIZE": "6",
        "ROLE_WORLD_SIZE": "6",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "NODE_RANK": "1",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "gpt-0.gpt.team.svc",
        "TORCHELASTIC_RUN_ID": "job",
        "TORCHELASTIC_RESTART_COUNT": "6",
        "TORCHELASTIC_MAX_RESTARTS": "7",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def test_only_who_was_checked_is_told_so() -> None:
    told = rank_environment(replace(REPLICA, checked=True), 1, Generation(4, 2))
    assert told.items() - rank_environment(REPLICA, 1, Generation(4, 2)).items() == {("RINGTRAIN_CHECKED", "1")}


def test_the_first_generation_is_no_restart() -> None:
    assert rank_environment(REPLICA, 0, Generation(0, 0))["TORCHELASTIC_RESTART_COUNT"] == "0"


def test_a_rank_is_told_where_checkpoints_lie() -> None:
    with_volume = replace(REPLICA, checkpoint=CheckpointSettings(directory="/checkpoints/gpt"))
    told = rank_environment(with_volume, 0, Generation(0, 0))
    assert told["RINGTRAIN_CHECKPOINT_DIRECTORY"] == "/checkpoints/gpt"
