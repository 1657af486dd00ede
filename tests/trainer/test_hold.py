import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_well_when_it_is_asked_to_and_not_before(number: signal.Signals) -> None:
    # The child inherits the mask, so that a signal that comes while it begins is kept for it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        process = subprocess.Popen([sys.executable, "-m", "ringtrain.hold"])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(number)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
