import socket
from pathlib import Path

from ringtrain.coordinator.listening import listened_at


def test_a_port_is_seen_while_it_is_listened_at() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert listened_at(port)
    assert not listened_at(port)


def test_of_both_families() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        assert listened_at(listener.getsockname()[1])


def test_a_connection_from_a_port_is_not_listening() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        with client:
            assert not listened_at(client.getsockname()[1])


def test_where_it_cannot_be_told_nothing_is_said(tmp_path: Path) -> None:
    assert not listened_at(80, (tmp_path / "tcp",))
