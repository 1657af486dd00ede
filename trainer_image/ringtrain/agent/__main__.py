"""`python -m ringtrain.agent`: the first process of a replica. It takes no arguments, only environment variables."""

import asyncio
import os
import sys

from ringtrain.agent import termination
from ringtrain.agent.agent import Agent
from ringtrain.contract.environment import PREFIX, BadEnvironment, ReplicaEnvironment
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.logs import log_to_stderr
from ringtrain.processes import adopt_orphans

_DEFAULT_LOG = "/dev/termination-log"


def main() -> int:
    """Exits with an exit code of the contract."""
    try:
        environment = ReplicaEnvironment.from_env(os.environ)
    except BadEnvironment as error:
        sys.stderr.write(f"{error}\n")
        log = os.environ.get(f"{PREFIX}TERMINATION_LOG") or _DEFAULT_LOG
        termination.write(log, termination.of_code(ExitCode.BAD_CONFIGURATION, str(error)))
        return ExitCode.BAD_CONFIGURATION
    log_to_stderr(f"replica {environment.replica} agent")
    adopt_orphans()
    return asyncio.run(_run(environment))


async def _run(environment: ReplicaEnvironment) -> int:
    return await Agent(environment).run()


if __name__ == "__main__":
    sys.exit(main())
