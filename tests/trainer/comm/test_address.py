import socket

import pytest

from ringtrain.comm import address
from ringtrain.comm.address import own_address


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.7.3.9"])
def test_a_loopback_address_is_itself(ip: str) -> None:
    assert own_address(ip, 0.0) == ip


def test_a_name_is_resolved() -> None:
    assert own_address("localhost", 0.0) in ("127.0.0.1", "::1")


def test_another_machines_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")  # Loopback: no stand-in for an address.
    with pytest.raises(OSError, match=r"192\.0\.2\.1.*not resolve to an address of this machine"):
        own_address("192.0.2.1", 0.0)


def test_the_host_name_stands_in_while_dns_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(name: str, *, loopback: bool = True) -> str | None:
        return {"job-0.service": None, "job-0": "10.1.2.3"}[name]

    monkeypatch.setattr(socket, "gethostname", lambda: "job-0")
    monkeypatch.setattr(address, "_usable", resolve)
    assert own_address("job-0.service", 0.0) == "10.1.2.3"
