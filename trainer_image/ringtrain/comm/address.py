"""Which of its own addresses a replica listens on."""

import fcntl
import ipaddress
import socket
import struct
import time
from pathlib import Path

_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B
_IPV6 = Path("/proc/net/if_inet6")


def own_address(name: str, timeout: float) -> str:
    """The IP address of `name`, this replica's own name or address. Raises OSError after `timeout` seconds.

    Only an address that this machine really has will do: for some seconds after a pod was replaced, the cluster's DNS
    may still give its predecessor's. The pod's own host name, which the kubelet writes into /etc/hosts, is asked too.
    """
    deadline = time.monotonic() + timeout
    while True:
        found = _usable(name) or _usable(socket.gethostname(), loopback=False)
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise OSError(f"{name!r} does not resolve to an address of this machine")
        time.sleep(0.1)


def _usable(name: str, *, loopback: bool = True) -> str | None:
    try:
        entries = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)
    except OSError:
        return None
    for family, kind, protocol, _, address in entries:
        ip = str(address[0])
        if not loopback and ipaddress.ip_address(ip.partition("%")[0]).is_loopback:
            continue  # Debian maps the host name to 127.0.1.1, where no other machine finds it.
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind((ip, 0))
            except OSError:
                continue
        return ip
    return None


def interface_of(ip: str) -> str:
    """The name of the network interface that has the IP address `ip`. Raises OSError when none has it."""
    address = ipaddress.ip_address(ip.partition("%")[0])
    found = _ipv4_networks() if address.version == 4 else _ipv6_addresses(_IPV6.read_text())
    for name, network in found:
        if address in network:
            return name
    raise OSError(f"no network interface of this machine has the address {ip}")


def _ipv4_networks() -> list[tuple[str, ipaddress.IPv4Network]]:
    """The first address of each interface; further ones are mostly of the same network."""
    networks = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                answers = [fcntl.ioctl(any_socket, question, request) for question in (_SIOCGIFADDR, _SIOCGIFNETMASK)]
            except OSError:  # It has no IPv4 address.
                continue
            address, mask = (socket.inet_ntoa(answer[20:24]) for answer in answers)
            networks.append((name, ipaddress.IPv4Network(f"{address}/{mask}", strict=False)))
    return networks


def _ipv6_addresses(table: str) -> list[tuple[str, ipaddress.IPv6Network]]:
    """`table` has lines of address, index, prefix length, scope, flags and name, all but the name in hexadecimal."""
    rows = (line.split() for line in table.splitlines())
    return [(row[-1], ipaddress.IPv6Network(int(row[0], 16))) for row in rows]
