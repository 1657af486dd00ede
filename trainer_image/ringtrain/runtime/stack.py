"""The stack of a rank that hangs, for its agent: written by C code, which asks nobody else in the process."""

import faulthandler
import os

from ringtrain.contract import stack


def tell_when_asked() -> None:
    """From now on the agent's signal makes this process write its main thread's stack; without an agent, nothing."""
    descriptor = os.environ.pop(stack.VARIABLE, None)
    if descriptor is not None:
        os.set_inheritable(int(descriptor), False)
        faulthandler.register(stack.SIGNAL, file=int(descriptor), all_threads=False)
