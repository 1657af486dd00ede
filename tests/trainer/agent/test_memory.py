from pathlib import Path

from ringtrain.agent.memory import oom_kills


def test_cgroup_v2(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n")
    assert oom_kills((events,)) == 2


def test_cgroup_v1_where_there_is_no_v2(tmp_path: Path) -> None:
    control = tmp_path / "memory.oom_control"
    control.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    assert oom_kills((tmp_path / "memory.events", control)) == 5


def test_nothing_can_be_told_without_counters(tmp_path: Path) -> None:
    assert oom_kills((tmp_path / "memory.events",)) == 0
