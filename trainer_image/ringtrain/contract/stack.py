"""How an agent asks a rank that seems to hang where it is."""

import signal

VARIABLE = "RINGTRAIN_STACK_FD"
"""The descriptor of the anonymous file that the Python stack is written to."""
SIGNAL = signal.SIGRTMIN + 5
"""Few programs use any of these signals for themselves."""
