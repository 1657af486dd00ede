"""Which of its own addresses a replica listens on."""

import ipaddress
import socket
import time


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
