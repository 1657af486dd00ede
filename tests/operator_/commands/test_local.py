"""`status` and `logs` of run directories."""

import json
import threading
import time
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from ringtrain_operator.commands.app import app


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_status(folder: Path, phase: str, **status: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"name": folder.name, "namespace": "default"}
    (folder / "new").write_text(json.dumps({"metadata": metadata, "status": {"phase": phase, **status}}))
    (folder / "new").replace(folder / "status.json")


def write_log(folder: Path, pod: str, text: str) -> None:
    (folder / "pods" / pod).mkdir(parents=True, exist_ok=True)
    with (folder / "pods" / pod / "log").open("a") as file:
        file.write(text)


def test_runs_are_listed(tmp_path: Path) -> None:
    assert invoke("status", "--local", "--directory", tmp_path).stdout == "there are no TrainingJobs\n"
    write_status(tmp_path / "b", "Running", progress="1/2")
    write_status(tmp_path / "a", "Succeeded")
    lines = invoke("status", "--local", "--directory", tmp_path).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["NAME", "PHASE"], ["a", "Succeeded"], ["b", "Running"]]


def test_one_run(tmp_path: Path) -> None:
    write_status(tmp_path / "a", "Failed", message="no luck")
    assert "phase     Failed: no luck" in invoke("status", "a", "--local", "--directory", tmp_path).stdout
    document = json.loads(invoke("status", "a", "--local", "--directory", tmp_path, "-o", "json").stdout)
    assert (document["kind"], document["status"]["phase"]) == ("TrainingJob", "Failed")


def test_a_watch_ends_with_the_job(tmp_path: Path) -> None:
    for phase, code in (("Succeeded", 0), ("Failed", 1)):
        write_status(tmp_path / "a", phase)
        result = invoke("status", "a", "-w", "--local", "--directory", tmp_path)
        assert (result.exit_code, result.stdout.count("\n")) == (code, 2)


def test_a_watch_tells_changes(tmp_path: Path) -> None:
    write_status(tmp_path / "a", "Running", round=1)

    def change() -> None:
        time.sleep(0.3)
        write_status(tmp_path / "a", "Succeeded", round=2)

    thread = threading.Thread(target=change)
    thread.start()
    result = invoke("status", "a", "-w", "--local", "--directory", tmp_path, "-o", "json")
    thread.join()
    assert [json.loads(line)["status"]["round"] for line in result.stdout.splitlines()] == [1, 2]


def test_a_run_that_is_not_there_or_cannot_be_read(tmp_path: Path) -> None:
    result = invoke("status", "a", "--local", "--directory", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: there is no run of a in {tmp_path}")
    assert invoke("logs", "a", "--local", "--directory", tmp_path).exit_code == 2
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "status.json").write_text("[]")
    assert "does not hold the status" in invoke("status", "a", "--local", "--directory", tmp_path).stderr


def test_logs_of_all_replicas_and_epochs(tmp_path: Path) -> None:
    run = tmp_path / "gpt-1"
    write_status(run, "Failed")
    for pod in ("gpt-1-10-0", "gpt-1-2-11", "gpt-1-2-9"):
        write_log(run, pod, f"first of {pod}\nlast")
    local = ("--local", "--directory", tmp_path)
    assert invoke("logs", "gpt-1", *local).stdout.splitlines() == [
        "[gpt-1-2-9] first of gpt-1-2-9",
        "[gpt-1-2-9] last",
        "[gpt-1-2-11] first of gpt-1-2-11",
        "[gpt-1-2-11] last",
        "[gpt-1-10-0] first of gpt-1-10-0",
        "[gpt-1-10-0] last",
    ]
    assert invoke("logs", "gpt-1", "--replica", "10", *local).stdout == "first of gpt-1-10-0\nlast\n"
    assert invoke("logs", "gpt-1", "--replica", "10", "--tail", "1", "--prefix", *local).stdout == "[gpt-1-10-0] last\n"
    assert invoke("logs", "gpt-1", "--tail", "0", *local).stdout == ""
    (line,) = invoke("logs", "gpt-1", "--replica", "10", "--tail", "1", "-o", "json", *local).stdout.splitlines()
    assert json.loads(line) == {"replica": 10, "pod": "gpt-1-10-0", "time": None, "text": "last", "rank": None}
    assert "name it by --replica" in invoke("logs", "gpt-1", "--rank", "1", *local).stderr
    assert invoke("logs", "gpt-1", "--rank", "1", "--replica", "0", *local).exit_code == 2


def test_lines_of_ranks_are_told_apart(tmp_path: Path) -> None:
    run = tmp_path / "gpt"
    write_status(run, "Failed")
    write_log(run, "gpt-1-0", "of the agent\n[rank 3] a\n[rank 2] [rank 3] b\n")
    local = ("--local", "--directory", tmp_path)
    assert invoke("logs", "gpt", "--replica", "1", *local).stdout.splitlines() == [
        "of the agent",
        "[rank 3] a",
        "[rank 2] [rank 3] b",
    ]
    assert invoke("logs", "gpt", "--tail", "1", *local).stdout == "[gpt-1-0] [rank 2] [rank 3] b\n"
    documents = [json.loads(line) for line in invoke("logs", "gpt", "-o", "json", *local).stdout.splitlines()]
    assert [(line["rank"], line["text"]) for line in documents] == [(None, "of the agent"), (3, "a"), (2, "[rank 3] b")]


def test_a_log_without_a_line_says_so(tmp_path: Path) -> None:
    run = tmp_path / "gpt"
    write_status(run, "Failed")
    write_log(run, "gpt-0-0", "")
    told = invoke("logs", "gpt", "--local", "--directory", tmp_path)
    assert (told.exit_code, told.stdout, told.stderr) == (0, "", "gpt has no line\n")


def test_following_goes_on_with_new_pods(tmp_path: Path) -> None:
    run = tmp_path / "gpt"
    write_status(run, "Running")
    write_log(run, "gpt-0-0", "old\nhal")

    def go_on() -> None:
        time.sleep(0.3)
        write_log(run, "gpt-0-0", "f\n")
        write_log(run, "gpt-0-1", "new, without an end")
        write_status(run, "Succeeded")

    thread = threading.Thread(target=go_on)
    thread.start()
    result = invoke("logs", "gpt", "-f", "--local", "--directory", tmp_path)
    thread.join()
    assert result.stdout.splitlines() == ["[gpt-0-0] old", "[gpt-0-0] half", "[gpt-0-1] new, without an end"]
