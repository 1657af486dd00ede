"""`python -m ringtrain.coordinator`, started by the agent of replica 0; its environment is the replica's."""

import argparse
import asyncio
import os
import sys

from ringtrain.contract.environment import BadEnvironment, ReplicaEnvironment
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.coordinator.server import Server
from ringtrain.logs import log_to_stderr


def main() -> int:
    """Exits with DONE once the whole job is finished."""
    log_to_stderr("coordinator")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--predecessor-ended", default="", help="how the coordinator before this one ended")
    arguments = parser.parse_args()
    try:
        environment = ReplicaEnvironment.from_env(os.environ)
    except BadEnvironment as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.BAD_CONFIGURATION
    asyncio.run(Server(environment, arguments.predecessor_ended).run())
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
