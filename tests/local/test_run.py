"""Whole jobs on this machine: `ringtrain run`, with real agents and ranks, and with faults."""

import re
import signal
import subprocess

import pytest

from local.harness import Finished, Runs

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]

ENDLESS = 100_000


def test_a_job_trains(plain: Finished, runs: Runs) -> None:
    assert plain.fact("rounds") == "15 of 15"
    assert plain.fact("restarts") == "0, counted against the budget: 0"
    assert plain.fact("loss").endswith("(round 15)")
    losses = re.findall(r"^round \d+/15 loss (\S+)", runs.log("plain", "plain-0-0"), re.MULTILINE)
    assert len(losses) == 15
    assert float(losses[-1]) < float(losses[0])
    # A run as short as this one may have ended before its first line of progress.
    assert re.search(r"^\d\d:\d\d:\d\d (Running|Succeeded)  round \d+/15", plain.output, re.MULTILINE)
    assert [path.name for path in runs.checkpoints("plain")] == [f"round-{n:08d}.gen-0.0" for n in (5, 10, 15)]


def test_a_killed_rank_changes_nothing_in_the_result(plain: Finished, runs: Runs) -> None:
    killed = runs.start("--fault", "kill:rank=1,round=8", name="killed").finish()
    assert killed.code == 0, killed.output
    assert killed.fact("rounds") == "15 of 15"
    assert killed.fact("restarts") == "1, counted against the budget: 1"
    assert "rank 1 killed-1-0 Signal9 (exit code 137)" in killed.fact("failure")
    assert killed.fact("digest") == plain.fact("digest")


def test_a_stopped_rank_is_found_and_counted_as_a_hang(plain: Finished, runs: Runs) -> None:
    stopped = runs.start("--fault", "stop:rank=2,round=8", name="stopped", training_timeout=5).finish()
    assert stopped.code == 0, stopped.output
    assert stopped.fact("restarts") == "1, counted against the budget: 1"
    assert "rank 2 stopped-2-0 Hang (exit code 82)" in stopped.fact("failure")
    assert stopped.fact("digest") == plain.fact("digest")


@pytest.mark.parametrize("fault", ["stop", "raise"])
def test_what_befalls_all_ranks_at_once_is_one_restart(plain: Finished, runs: Runs, fault: str) -> None:
    faults = [word for rank in range(3) for word in ("--fault", f"{fault}:rank={rank},round=8")]
    struck = runs.start(*faults, name=f"all-{fault}", training_timeout=5).finish()
    assert struck.code == 0, struck.output
    assert struck.fact("restarts") == "1, counted against the budget: 1"
    if fault == "stop":
        # Who is stopped does not hear that others have failed before.
        assert [f"rank {rank} all-stop-{rank}-0 Hang" in struck.output for rank in range(3)] == [True] * 3
    assert struck.fact("digest") == plain.fact("digest")


def test_a_bad_configuration_fails_at_once(runs: Runs) -> None:
    failed = runs.start("--fault", "exit:rank=2,round=3,code=78", name="misconfigured").finish()
    assert failed.code == 1, failed.output
    assert failed.fact("restarts") == "0, counted against the budget: 0"
    assert "misconfigured-2-0 BadConfiguration (exit code 78)" in failed.fact("failure")
    assert re.search(r"^last lines of .*/misconfigured-2-0/log:$", failed.output, re.MULTILINE)
    assert re.search(r"^Failed: .*\(.*/misconfigured/pods/misconfigured-2-0/log\)$", failed.output, re.MULTILINE)
    assert "kubectl" not in failed.output


def test_a_flipped_byte_in_the_newest_checkpoint_costs_only_that_checkpoint(plain: Finished, runs: Runs) -> None:
    first = runs.start(name="flipped").finish()
    assert first.code == 0, first.output
    newest = runs.checkpoints("flipped")[-1]
    shard = max((path for path in newest.iterdir() if path.suffix != ".json"), key=lambda path: path.stat().st_size)
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    again = runs.start(name="flipped").finish()
    assert again.code == 0, again.output
    assert re.search(r"Warning CheckpointDamaged: .*round 15: .*; using round 10", again.output)
    assert again.fact("rounds") == "15 of 15"
    assert again.fact("digest") == first.fact("digest") == plain.fact("digest")


def test_a_finished_job_says_so(plain: Finished, runs: Runs) -> None:
    again = runs.start(name="plain").finish()
    assert again.code == 0, again.output
    assert "this job is finished already" in again.output
    assert again.fact("digest") == plain.fact("digest")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process_and_the_job_goes_on_later(runs: Runs, number: signal.Signals) -> None:
    name = number.name.lower()
    run = runs.start(name=name, rounds=ENDLESS)
    run.wait_for(r"Running .* checkpoint \d+")
    assert run.processes()
    run.process.send_signal(number)
    interrupted = run.finish()
    assert interrupted.code == 130, interrupted.output
    assert run.processes() == []
    round_then = runs.checkpoints(name)[-1].name.partition(".gen-")[0]
    again = runs.start(name=name, rounds=ENDLESS)
    again.wait_for(r"Running .* checkpoint \d+")
    assert "going on from an earlier run's checkpoints" in again.output
    again.process.send_signal(number)
    assert again.finish().code == 130
    assert runs.checkpoints(name)[-1].name.partition(".gen-")[0] >= round_then


def test_a_killed_runner_leaves_no_process(runs: Runs) -> None:
    run = runs.start(name="orphaned", rounds=ENDLESS)
    run.wait_for(r"Running .* round \d+")
    assert run.processes()
    run.process.kill()
    run.finish()
    run.wait_until_no_process()


def test_when_nobody_reads_the_output_the_job_ends_like_an_interrupted_one(runs: Runs) -> None:
    run = runs.start(name="piped", rounds=ENDLESS, shell='set -o pipefail; "$@" | head -n 3')
    piped = run.finish()
    assert piped.code == 130, piped.output
    assert "standard output was closed, so the job was stopped: run it again to go on" in piped.output
    assert "Traceback" not in piped.output
    assert run.processes() == []


def test_a_run_directory_that_is_deleted_ends_the_job(runs: Runs) -> None:
    run = runs.start(name="deleted", rounds=ENDLESS)
    run.wait_for(r"Running .* round \d+")
    directory = runs.folder / ".ringtrain" / "deleted"
    # A rank may be writing a checkpoint into it.
    directory.rename(runs.folder / "elsewhere")
    deleted = run.finish()
    assert deleted.code == 1, deleted.output
    assert f"error: {directory} was deleted or replaced while the job ran in it" in deleted.output
    assert "Traceback" not in deleted.output
    assert run.processes() == []


# In a mount namespace of its own nothing is left behind.
FILL = "mount -t tmpfs -o size=16k none full && dd if=/dev/zero of=full/fill status=none"
FULL = f'unshare --mount sh -c \'{FILL}; exec "$@"\' sh "$@"'


def test_a_full_disk_costs_checkpoints_logs_and_status_but_not_the_training(runs: Runs) -> None:
    (runs.folder / "full").mkdir()
    if subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", runs.folder / "full"], check=False
    ).returncode:
        pytest.skip("file systems cannot be mounted here")
    run = runs.start("--directory", "full", "--fault", "kill:rank=1,round=8", name="cramped", shell=FULL)
    cramped = run.finish()
    assert cramped.code == 0, cramped.output
    assert cramped.fact("rounds") == "15 of 15"
    assert cramped.fact("restarts") == "1, counted against the budget: 1"
    assert f"no space left on {runs.folder}/full/cramped" in cramped.output
    assert re.search(r"CheckpointFailed: .*round 5 .*No space left on device", cramped.output)
