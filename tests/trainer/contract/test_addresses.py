import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.addresses import STORE_PORT, Addresses
from ringtrain.contract.generation import Generation

LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@given(LABELS, st.lists(LABELS, min_size=1, max_size=4))
def test_dns_tables_survive_the_round_trip(job: str, domain: list[str]) -> None:
    addresses = Addresses("dns", ".".join([job, *domain]))
    assert Addresses.parse(str(addresses)) == addresses
    assert addresses.of(3) == ".".join([f"{job}-3", *domain])


@given(st.integers(0, 255))
def test_loopback_tables_survive_the_round_trip(number: int) -> None:
    addresses = Addresses("loopback", f"127.{number}")
    assert Addresses.parse(str(addresses)) == addresses


def test_each_replica_has_a_loopback_address_of_its_own() -> None:
    addresses = Addresses("loopback", "127.5")
    found = [addresses.of(replica) for replica in range(2000)]
    assert found[:2] == ["127.5.0.1", "127.5.0.2"]
    assert len(set(found)) == 2000
    assert all(0 < int(part) < 255 for address in found for part in address.split(".")[3:])


def test_jobs_of_one_machine_and_their_generations_have_master_ports_of_their_own() -> None:
    ports = {
        Addresses("loopback", f"127.{number}").master_port(Generation(0, attempt))
        for number in range(256)
        for attempt in range(31)
    }
    assert len(ports) == 256 * 31
    assert min(ports) > STORE_PORT
    assert max(ports) < 32768


@given(
    st.sampled_from([Addresses("dns", "gpt.gpt.team.svc"), Addresses("loopback", "127.255")]),
    st.integers(0, 9999),
    st.integers(0, 30),
)
def test_the_generation_before_had_another_master_port(addresses: Addresses, epoch: int, attempt: int) -> None:
    port = addresses.master_port(Generation(epoch, attempt))
    assert STORE_PORT < port < 32768
    assert port != addresses.master_port(Generation(epoch, attempt + 1))
    assert port != addresses.master_port(Generation(epoch + 1, 0))


@pytest.mark.parametrize(
    "text", ["", "dns:", "dns:job", "loopback:10.1", "loopback:127.256", "loopback:127.1.2", "x:y"]
)
def test_anything_else_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected dns:JOB"):
        Addresses.parse(text)
