import os
import subprocess
import sys
from pathlib import Path

from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.report import TerminationMessage


def test_a_bad_environment_is_said_on_stderr_and_in_the_termination_log(tmp_path: Path) -> None:
    log = tmp_path / "termination"
    ended = subprocess.run(
        [sys.executable, "-m", "ringtrain.agent"],
        env={**os.environ, "RINGTRAIN_JOB": "job", "RINGTRAIN_TERMINATION_LOG": str(log)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == ExitCode.BAD_CONFIGURATION
    assert "is not set" in ended.stderr
    assert "Traceback" not in ended.stderr
    message = TerminationMessage.model_validate_json(log.read_text())
    assert message.reason == "BadConfiguration"
    assert "is not set" in message.message


def test_agent_and_coordinator_do_not_load_torch() -> None:
    check = "import sys, ringtrain.agent.agent, ringtrain.coordinator.server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], timeout=120, check=False).returncode == 0
