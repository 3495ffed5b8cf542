"""`ottla config`."""

import pytest

from tests.cli.command import Ottla


@pytest.fixture
def broker_id(ottla: Ottla) -> str:
    return str(ottla("cluster", "info", "--json").json["brokers"][0]["id"])


def test_a_setting_that_was_set_is_read_and_put_back(ottla: Ottla, topic: str) -> None:
    default = ottla("config", "get", "topic", topic, "retention.ms").stdout

    changed = ottla("config", "set", "topic", topic, "retention.ms=1000", "cleanup.policy=compact", "--json").json
    assert changed == {"topic": topic, "set": {"retention.ms": "1000", "cleanup.policy": "compact"}}
    assert ottla("config", "get", "topic", topic, "retention.ms").stdout == "1000\n"

    assert ottla("config", "unset", "topic", topic, "retention.ms", "--json").json["unset"] == ["retention.ms"]
    assert ottla("config", "get", "topic", topic, "retention.ms").stdout == default


def test_list_shows_where_values_come_from(ottla: Ottla, topic: str) -> None:
    ottla("config", "set", "topic", topic, "retention.ms=1000")

    entries = {entry["name"]: entry for entry in ottla("config", "list", "topic", topic, "--json").json}

    assert entries["retention.ms"] == {
        "name": "retention.ms", "value": "1000", "source": "topic", "read_only": False, "sensitive": False,
    }  # fmt: skip
    assert entries["cleanup.policy"]["source"] == "default"
    changed = [line.split() for line in ottla("config", "list", "topic", topic, "--changed").lines]
    assert ["retention.ms", "1000", "topic"] in changed
    assert "cleanup.policy" not in [line[0] for line in changed]


def test_brokers_have_settings_too(ottla: Ottla, broker_id: str) -> None:
    before = ottla("config", "get", "broker", broker_id, "log.retention.ms").stdout

    ottla("config", "set", "broker", broker_id, "log.retention.ms=90000000")
    assert ottla("config", "get", "broker", broker_id, "log.retention.ms").stdout == "90000000\n"
    ottla("config", "unset", "broker", broker_id, "log.retention.ms")
    assert ottla("config", "get", "broker", broker_id, "log.retention.ms").stdout == before


def test_several_values_are_printed_with_their_names(ottla: Ottla, topic: str) -> None:
    lines = ottla("config", "get", "topic", topic, "retention.ms", "segment.bytes").lines

    assert [line.split()[0] for line in lines] == ["SETTING", "retention.ms", "segment.bytes"]


def test_a_value_that_is_not_allowed_is_refused(ottla: Ottla, topic: str) -> None:
    assert "retention.ms" in ottla("config", "set", "topic", topic, "retention.ms=soon", code=1).stderr


def test_a_setting_that_is_not_there_is_refused(ottla: Ottla, topic: str) -> None:
    for arguments in (["get", "topic", topic, "colour"], ["set", "topic", topic, "colour=red"]):
        assert f"topic {topic} has no setting 'colour'" in ottla("config", *arguments, code=1).stderr
