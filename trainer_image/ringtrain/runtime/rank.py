"""`python -m ringtrain.runtime.rank`: a rank of the built-in trainer."""

import os
import sys

from ringtrain.runtime.run import run
from ringtrain.train import train

if __name__ == "__main__":
    run(train)
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking torch apart module by module takes longer than the whole end of a job.
    os._exit(0)
