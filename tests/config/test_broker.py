import pytest

from ottla.config import BrokerConfig, FetchConfig, NetworkConfig, QuotaConfig
from ottla.errors import ConfigError


def test_clients_are_sent_to_the_address_unless_told_otherwise() -> None:
    assert BrokerConfig(address="10.0.0.1").advertised_host == "10.0.0.1"
    assert BrokerConfig(address="0.0.0.0", advertised_address="broker-1").advertised_host == "broker-1"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
def test_a_node_that_listens_everywhere_must_say_where_it_can_be_reached(address: str) -> None:
    with pytest.raises(ConfigError, match="advertised_address"):
        BrokerConfig(address=address)


def test_clients_can_not_be_sent_to_every_interface() -> None:
    with pytest.raises(ConfigError, match="advertised_address"):
        BrokerConfig(address="0.0.0.0", advertised_address="0.0.0.0")


def test_the_data_needs_a_directory() -> None:
    with pytest.raises(ConfigError, match="data_dir"):
        BrokerConfig(data_dir="")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: BrokerConfig(port=65_536), "port"),
        (lambda: BrokerConfig(node_id=-1), "node_id"),
        (lambda: BrokerConfig(num_partitions=0), "num_partitions"),
        (lambda: NetworkConfig(connections_max=0), "network.connections_max"),
        (lambda: FetchConfig(fetch_max_bytes=1), "fetch.fetch_max_bytes"),
        (lambda: QuotaConfig(window_num=1), "quota.window_num"),
    ],
)
def test_limits_hold_in_every_section(make: object, name: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=f"^{name}: "):
        make()
