from pathlib import Path

import pytest

from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.local.run_directory import BadRunDirectory, RunDirectory
from ringtrain_operator.plan.observed import JobKey

KEY = JobKey("default", "small")
STATUS = TrainingJobStatus(phase=JobPhase.RUNNING, epoch=3, round=12)


def checkpoint(directory: RunDirectory) -> Path:
    path = directory.checkpoints / "round-00000005.gen-0.0"
    path.mkdir(parents=True)
    return path


def test_status_survives_and_is_readable_json(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path / "small", KEY) as directory:
        assert directory.read_status() is None
        directory.write_status(STATUS)
    with RunDirectory.open(tmp_path / "small", KEY) as directory:
        assert directory.read_status() == STATUS
    assert not (tmp_path / "small" / "status.json.new").exists()


def test_a_second_runner_is_kept_out(tmp_path: Path) -> None:
    with (
        RunDirectory.open(tmp_path / "small", KEY),
        pytest.raises(BadRunDirectory, match="in use by another ringtrain run"),
    ):
        RunDirectory.open(tmp_path / "small", KEY)
    with RunDirectory.open(tmp_path / "small", KEY):
        pass


def test_a_foreign_folder_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(BadRunDirectory, match=r"holds 'thesis.tex'"):
        RunDirectory.open(tmp_path, KEY)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_clear_forgets_earlier_runs(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path / "small", KEY) as directory:
        directory.write_status(STATUS)
        checkpoint(directory)
        directory.pod("small-0-0")
        directory.clear()
        assert directory.read_status() is None
        assert not directory.has_checkpoints
        assert not (directory.root / "pods").exists()


def test_checkpoints_without_a_status_are_refused(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path / "small", KEY) as directory:
        checkpoint(directory)
        with pytest.raises(BadRunDirectory, match="--fresh"):
            directory.read_status()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"status": {"phase": "Dancing"}}'])
def test_an_unreadable_status_is_refused(tmp_path: Path, text: str) -> None:
    with RunDirectory.open(tmp_path / "small", KEY) as directory:
        (directory.root / "status.json").write_text(text)
        with pytest.raises(BadRunDirectory, match=r"status\.json does not hold the status of a job: .*--fresh"):
            directory.read_status()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "small").write_text("")
    with pytest.raises(BadRunDirectory, match="File exists"):
        RunDirectory.open(tmp_path / "small", KEY)


@pytest.mark.parametrize("name", ["checkpoints", "pods"])
def test_so_is_one_within(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(BadRunDirectory, match=f"{tmp_path / name} is no directory: remove it"):
        RunDirectory.open(tmp_path, KEY)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(tmp_path / "a-disk-that-is-not-mounted")
    with pytest.raises(BadRunDirectory, match="is no directory"):
        RunDirectory.open(tmp_path, KEY)
