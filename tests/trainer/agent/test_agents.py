"""Real agents, ranks, coordinator and store on loopback addresses; the test stands for the operator and the kubelet."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.phases import Phase, PhaseTimeouts
from support.loopback_job import LoopbackJob, loop_command, terminate

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(900)]

MakeJob = Callable[..., LoopbackJob]
ENDLESS = loop_command(rounds=1_000_000)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[MakeJob]:
    """Makes jobs, and ends them by force."""
    made: list[LoopbackJob] = []

    def make(**settings: Any) -> LoopbackJob:
        made.append(LoopbackJob(tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def training(job: LoopbackJob, generation: str) -> Callable[[], bool]:
    """Whether every replica trains in `generation`."""
    return lambda: all(
        job.generation(replica) == generation and job.round(replica) > 0 for replica in range(job.replicas)
    )


def notices(job: LoopbackJob, replica: int) -> list[tuple[str, str]]:
    """(reason, message) of what the user is told, by the replica's agent."""
    status = job.status(replica)
    assert status is not None
    assert status.job_report is not None
    return [(notice.reason, notice.message) for notice in status.job_report.notices]


def test_all_replicas_end_with_zero_when_training_is_done(job: MakeJob) -> None:
    running = job(command=loop_command(rounds=30), procs_per_replica=2, replicas=2)
    running.start_all()
    assert running.get(0, "/nothing")[0] in (0, 404)
    running.until(lambda: running.get(1, "/readyz")[0] == 200, "a ready replica")
    running.until(lambda: "ringtrain_round" in running.get(1, "/metrics")[1], "metrics of a round")
    assert [running.wait(replica) for replica in range(2)] == [0, 0]
    assert running.processes() == []
    assert running.termination(1).exit_code == ExitCode.DONE
    assert running.termination(1).round == 30
    progress = running.termination(0).progress
    assert progress is not None
    assert (progress.round, progress.total_rounds) == (30, 30)
    for rank in range(4):
        assert f"rank {rank} finished in generations 0.0\n" in running.printed(rank)


def test_a_killed_rank_ends_its_pod_and_the_others_wait_for_its_replacement_in_the_same_processes(job: MakeJob) -> None:
    timeout = 3.0
    running = job(command=ENDLESS, timeouts=PhaseTimeouts(training=timeout, compiling=timeout))
    running.start_all()
    running.until(training(running, "0.0"), "training")
    survivors = [running.rank_pid(replica) for replica in (0, 2)]

    os.kill(running.rank_pid(1), signal.SIGKILL)
    assert running.wait(1) == 128 + signal.SIGKILL
    message = running.termination(1)
    assert (message.reason, message.rank) == ("Signal9", 1)
    assert "SIGKILL" in message.message

    # Absent for three times the time-out: no other replica's probe fails.
    deadline = time.monotonic() + 3 * timeout
    while time.monotonic() < deadline:
        for replica in (0, 2):
            assert running.get(replica, "/livez") == (200, "ok\n")
        time.sleep(0.2)
    assert running.get(0, "/readyz")[0] == 503
    status = running.status(0)
    assert status is not None
    assert status.job_report is not None
    assert status.job_report.absent_replicas == (1,)
    assert [rank.phase for rank in status.ranks] == [Phase.WAITING]

    running.start(1, epoch=2)
    running.until(training(running, "2.0"), "training after the replacement")
    assert [running.rank_pid(replica) for replica in (0, 2)] == survivors

    # The replaced pod comes back from the dead.
    running.kill(1)
    running.start(1, epoch=1)
    assert running.wait(1) == ExitCode.STALE
    assert "epoch 2" in running.termination(1, epoch=1).message
    assert [running.rank_pid(replica) for replica in (0, 2)] == survivors


@pytest.mark.parametrize("fault", ["stop", "hang"])
def test_a_rank_that_hangs_fails_the_probe_of_its_own_replica_only(job: MakeJob, fault: str) -> None:
    timeouts = PhaseTimeouts(training=5, compiling=60)
    running = job(replicas=2, command=ENDLESS, faults=f"{fault}:rank=1,round=3", timeouts=timeouts)
    running.start_all()
    running.until(lambda: running.get(1, "/livez")[0] == 503, "a failing probe")
    code, reason = running.get(1, "/livez")
    assert code == 503
    assert "rank 1" in reason
    assert "training" in reason
    assert running.get(0, "/livez")[0] == 200

    terminate(running.agents[1])
    assert running.wait(1) == ExitCode.HANG
    message = running.termination(1)
    assert (message.reason, message.rank, message.round) == ("Hang", 1, 2)
    assert "rank 1" in message.message
    assert "training" in message.message
    running.until(lambda: running.processes(1) == [], "the end of the hung rank")
    assert running.get(0, "/livez")[0] == 200


def test_replica_zero_its_coordinator_and_its_store_come_back(job: MakeJob) -> None:
    running = job(replicas=2, command=ENDLESS)
    running.start_all()
    running.until(training(running, "0.0"), "training")
    survivor = running.rank_pid(1)

    # Of the coordinator alone: its agent starts it again, and no attempt is used twice.
    os.kill(running.pid_of(0, "ringtrain.coordinator"), signal.SIGKILL)
    running.until(training(running, "0.1"), "training under a new coordinator")
    # The user hears of it, as of the store's below.
    assert notices(running, 1) == [
        ("CoordinatorLost", "the coordinator ended: exit code 137; a new one has taken its place")
    ]
    # Of the store alone.
    os.kill(running.pid_of(0, "ringtrain.runtime.store"), signal.SIGKILL)
    running.until(training(running, "0.2"), "training with a new store")
    assert [reason for reason, _ in notices(running, 1)] == ["CoordinatorLost", "StoreLost"]

    running.kill(0)
    running.until(lambda: running.phase(1) is Phase.WAITING, "a replica that waits")
    assert running.get(1, "/livez")[0] == 200
    running.start(0, epoch=1)
    running.until(training(running, "1.0"), "training with a new replica 0")
    assert running.rank_pid(1) == survivor


def test_sigterm_is_a_preemption_of_ranks_in_any_state(job: MakeJob) -> None:
    running = job(replicas=2, command=ENDLESS)
    running.start_all()
    running.until(training(running, "0.0"), "training")
    terminate(running.agents[1])
    assert running.wait(1) == ExitCode.PREEMPTED
    assert running.termination(1).reason == "Preempted"
    assert running.processes(1) == []
    running.until(lambda: running.phase(0) is Phase.WAITING, "a replica that waits")
    running.agents[0].send_signal(signal.SIGINT)
    assert running.wait(0) == ExitCode.PREEMPTED
    assert running.processes() == []


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("raise:rank=0,round=2", ExitCode.USER_ERROR, "InjectedFault: injected by the fault"),
        ("exit:rank=0,round=2,code=78", ExitCode.BAD_CONFIGURATION, "exited with code 78"),
    ],
)
def test_a_rank_that_fails_is_the_end_of_its_pod(job: MakeJob, fault: str, code: ExitCode, said: str) -> None:
    running = job(replicas=1, procs_per_replica=2, command=ENDLESS, faults=fault)
    running.start_all()
    assert running.wait(0) == code
    message = running.termination(0)
    assert (message.exit_code, message.rank, message.generation) == (code, 0, "0.0")
    assert said in message.message
    assert running.processes() == []


_PLAIN = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
dist.destroy_process_group()
assert total.item() == int(os.environ["WORLD_SIZE"]) == 2
print(f"rank {os.environ['RANK']} of {int(total.item())}", flush=True)
"""


def test_a_command_of_plain_torch_distributed_works(job: MakeJob) -> None:
    running = job(replicas=2, command=(sys.executable, "-c", _PLAIN))
    running.start_all()
    assert [running.wait(replica) for replica in range(2)] == [0, 0]
    assert "rank 1 of 2" in running.log(1)
    assert running.processes() == []


_PLAIN_ENDLESS = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
print(f"restart {os.environ['TORCHELASTIC_RESTART_COUNT']} rank {dist.get_rank()}", flush=True)
while True:
    dist.all_reduce(torch.ones(1))
    time.sleep(0.05)
"""


@pytest.fixture
def plain(job: MakeJob) -> LoopbackJob:
    """Two replicas of two ranks each, which never end by themselves and know nothing of us."""
    return job(replicas=2, procs_per_replica=2, command=(sys.executable, "-c", _PLAIN_ENDLESS))


def train_by_themselves(job: LoopbackJob, generation: str) -> Callable[[], bool]:
    return lambda: all(
        job.generation(replica) == generation and job.phase(replica) is Phase.TRAINING for replica in range(2)
    )


def test_a_plain_command_starts_when_all_replicas_are_there(plain: LoopbackJob) -> None:
    plain.start(0)
    plain.until(lambda: plain.get(0, "/readyz") == (503, "rank 0 is waiting\n"), "a replica that waits")
    status = plain.status(0)
    assert status is not None
    assert [rank.pid for rank in status.ranks] == [None, None]
    plain.start(1)
    plain.until(train_by_themselves(plain, "0.0"), "training")
    assert plain.get(1, "/readyz")[0] == 200


def test_a_killed_rank_of_a_plain_command_restarts_all_ranks_and_only_its_own_pod_ends(plain: LoopbackJob) -> None:
    plain.start_all()
    plain.until(train_by_themselves(plain, "0.0"), "training")
    before = {plain.rank_pid(0, local_rank) for local_rank in range(2)}

    os.kill(plain.rank_pid(1, 1), signal.SIGKILL)
    assert plain.wait(1) == 128 + signal.SIGKILL
    assert (plain.termination(1).reason, plain.termination(1).rank) == ("Signal9", 3)
    plain.until(lambda: plain.get(0, "/readyz") == (503, "rank 0 is waiting\n"), "a replica that waits")
    assert plain.get(0, "/livez") == (200, "ok\n")
    assert plain.processes(1) == []

    plain.start(1, epoch=1)
    plain.until(train_by_themselves(plain, "1.0"), "training of all anew")
    assert before.isdisjoint(plain.rank_pid(0, local_rank) for local_rank in range(2))
    plain.until(lambda: "restart 1 rank 0" in plain.printed(0), "ranks that know that they were restarted")


def test_a_lost_replica_zero_restarts_all_ranks_of_a_plain_command(plain: LoopbackJob) -> None:
    plain.start_all()
    plain.until(train_by_themselves(plain, "0.0"), "training")
    plain.kill(0)
    plain.until(lambda: plain.phase(1) is Phase.WAITING, "a replica that waits")
    assert plain.agents[1].poll() is None
    plain.start(0, epoch=1)
    plain.until(train_by_themselves(plain, "1.0"), "training of all anew")


def test_a_preemption_of_a_plain_command_is_no_failure_of_its_peers(plain: LoopbackJob) -> None:
    plain.start_all()
    plain.until(train_by_themselves(plain, "0.0"), "training")
    terminate(plain.agents[1])
    assert plain.wait(1) == ExitCode.PREEMPTED
    plain.until(lambda: plain.phase(0) is Phase.WAITING, "a replica that waits")
    assert plain.agents[0].poll() is None
    assert notices(plain, 0) == []


def test_a_failing_command_gives_its_own_exit_code(job: MakeJob) -> None:
    running = job(replicas=1, command=(sys.executable, "-c", "raise SystemExit(3)"))
    running.start_all()
    assert running.wait(0) == 3
    assert "rank 0 exited with code 3" in running.termination(0).message


def test_a_command_that_does_not_exist_is_a_bad_configuration(job: MakeJob) -> None:
    running = job(replicas=1, command=("/no/such/command",))
    running.start_all()
    assert running.wait(0) == ExitCode.BAD_CONFIGURATION
    assert "/no/such/command" in running.termination(0).message
    assert running.processes() == []
