import socket
from pathlib import Path

import pytest

from ringtrain.comm import address
from ringtrain.comm.address import interface_of, own_address


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


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.7.3.9"])
def test_loopback_addresses_are_of_the_loopback_interface(ip: str) -> None:
    assert interface_of(ip) == "lo"


def test_an_ipv6_address_is_of_the_interface_that_lists_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "if_inet6"
    table.write_text(
        "fe80000000000000000000fffe000001 02 40 20 80     eth0\nfd000000000000000000000000000002 03 40 00 80     net1\n"
    )
    monkeypatch.setattr(address, "_IPV6", table)
    assert interface_of("fd00::2") == "net1"
    assert interface_of("fe80::ff:fe00:1%eth0") == "eth0"
    with pytest.raises(OSError, match="no network interface of this machine has the address fd00::3"):
        interface_of("fd00::3")


def test_another_machines_address_is_of_no_interface() -> None:
    with pytest.raises(OSError, match=r"has the address 203\.0\.113\.1"):
        interface_of("203.0.113.1")
