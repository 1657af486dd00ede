"""What can be in the way of a request, in words that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes.aio.config import ConfigException

from ringtrain_operator.cluster.api import ApiError

_DOCTOR = "`ringtrain doctor` looks for the cause"


class ClientError(Exception):
    """The message says what is wrong, and what to do."""


class NoSuchJob(ClientError):
    """There is no such job, or no run of it."""


class Refused(ClientError):
    """The cluster understood, and will not do it."""


class TookTooLong(ClientError):
    """What was waited for did not happen in time."""


class CannotAsk(ClientError):
    """The cluster cannot be asked: it gives no answer, does not know us, or knows no TrainingJobs."""


@contextmanager
def explained() -> Iterator[None]:
    """Raises what the API and the credentials raise as ClientError."""
    try:
        yield
    except ConfigException as error:
        raise CannotAsk(
            f"no cluster is configured ({str(error).rstrip('.')}): set KUBECONFIG, or name a --context of it"
        ) from error
    except ApiError as error:
        raise explain(error) from error


def explain(error: ApiError) -> ClientError:
    """The same error for people."""
    match error.status:
        case 0:
            return CannotAsk(
                f"the cluster gives no answer: {error.message}: check that it runs, and that KUBECONFIG or --context "
                "names the right one"
            )
        case 401:
            return CannotAsk("the cluster does not know your credentials: log in again, or name another --context")
        case 403:
            return Refused(
                f"{error.message}: ask whoever runs the cluster for the role `edit` in the namespace, or `view` to look"
            )
        case 404 if error.reason != "NotFound":
            return CannotAsk(f"the cluster knows no TrainingJobs: install Ringtrain's chart; {_DOCTOR}")
        case 404:
            return NoSuchJob(error.message)
        case status if status >= 500 or status == 429:
            return CannotAsk(f"the cluster is in trouble: {error.message} ({status} {error.reason}): try again later")
    return Refused(error.message)
