"""`python -m ringtrain_operator`: runs the operator, in a cluster or with a kubeconfig."""

import asyncio
import logging
import os
import sys

import kopf

from ringtrain_operator.operate import operate
from ringtrain_operator.settings import BadSettings, Settings


def main() -> None:
    try:
        settings = Settings.from_env(os.environ)
    except BadSettings as error:
        sys.exit(str(error))
    if settings.log_format == "json":
        kopf.configure(log_format=kopf.LogFormat.JSON)
    else:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    # kopf logs every event that a handler took.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    asyncio.run(operate(settings))


if __name__ == "__main__":
    main()
