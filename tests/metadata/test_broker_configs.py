import pytest

from ottla.config import BrokerConfig, NetworkConfig
from ottla.config.names import settings
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.broker_configs import broker_configs, require_dynamic, static_value


def test_every_setting_can_be_seen() -> None:
    assert {definition.setting.path for definition in broker_configs().values()} == set(settings())


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("node.id", "node_id"),
        ("num.partitions", "num_partitions"),
        ("log.retention.ms", "log.retention_ms"),
        ("message.max.bytes", "log.max_message_bytes"),
        ("group.max.session.timeout.ms", "groups.group_max_session_timeout_ms"),
        ("ottla.journal.durability", "journal.durability"),
    ],
)
def test_a_setting_has_kafkas_name_where_there_is_one(name: str, path: str) -> None:
    assert broker_configs()[name].setting.path == path


def test_what_is_about_logs_or_placement_can_be_changed_and_the_rest_can_not() -> None:
    changeable = {definition.setting.path for definition in broker_configs().values() if not definition.read_only}
    assert changeable == {"cluster.placement", *(path for path in settings() if path.startswith("log."))}


def test_the_static_value_is_what_the_node_was_started_with() -> None:
    config = BrokerConfig(network=NetworkConfig(connections_max=7))
    assert static_value(config, broker_configs()["max.connections"]) == 7
    assert static_value(config, broker_configs()["node.id"]) == 1


def test_a_valid_change_is_let_through() -> None:
    require_dynamic(BrokerConfig(), {"log.retention.ms": "5", "log.roll.ms": "6"})
    require_dynamic(BrokerConfig(), {"ottla.cluster.placement": "draining"})


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"nope": "1"}, "Unknown broker config name: nope"),
        ({"num.partitions": "3"}, "Cannot update this config dynamically: num.partitions"),
        ({"log.retention.ms": "x"}, "Not a number"),
        ({"ottla.cluster.placement": "upstairs"}, "must be one of: open, joining, draining, gone"),
        ({"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"}, "min_compaction_lag_ms"),
    ],
)
def test_a_change_that_can_not_be_made_is_refused(values: dict[str, str], reason: str) -> None:
    with pytest.raises(BrokerError, match=reason) as caught:
        require_dynamic(BrokerConfig(), values)
    assert caught.value.code == ErrorCode.INVALID_CONFIG


def test_what_may_be_placed_is_said_of_one_broker() -> None:
    with pytest.raises(BrokerError, match="set for one broker"):
        require_dynamic(BrokerConfig(), {"ottla.cluster.placement": "draining"}, for_all=True)
