import pytest
from kubernetes.aio.config import ConfigException

from ringtrain_operator.client.errors import CannotAsk, ClientError, NoSuchJob, Refused, explain, explained
from ringtrain_operator.cluster.api import ApiError


@pytest.mark.parametrize(
    ("status", "reason", "kind", "words"),
    [
        (0, "ClientConnectorError", CannotAsk, "check that it runs"),
        (401, "Unauthorized", CannotAsk, "log in again"),
        (403, "Forbidden", Refused, "the role `edit`"),
        (404, "Not Found", CannotAsk, "install Ringtrain's chart"),
        (404, "NotFound", NoSuchJob, "said"),
        (409, "Conflict", Refused, "said"),
        (422, "Invalid", Refused, "said"),
        (429, "TooManyRequests", CannotAsk, "try again later"),
        (503, "ServiceUnavailable", CannotAsk, "try again later"),
    ],
)
def test_every_error_says_what_to_do(status: int, reason: str, kind: type[ClientError], words: str) -> None:
    error = explain(ApiError("GET", "/path", status, reason, "said"))
    assert type(error) is kind
    assert words in str(error)


def test_no_configuration() -> None:
    with pytest.raises(CannotAsk, match="set KUBECONFIG"), explained():
        raise ConfigException("Invalid kube-config file.")
