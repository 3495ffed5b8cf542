"""`ottla quota`."""

from collections.abc import Iterator

import pytest

from tests.cli.command import Ottla
from tests.interop.waiting import eventually


@pytest.fixture
def client(ottla: Ottla, topic_name: str) -> Iterator[str]:
    yield topic_name
    ottla("quota", "remove", "--client", topic_name)


def quotas_of(ottla: Ottla, *whom: str) -> dict[str, float]:
    found = ottla("quota", "get", *whom, "--json").json
    return found[0]["quotas"] if found else {}


def test_a_quota_that_was_set_is_shown_and_removed(ottla: Ottla, client: str) -> None:
    changed = ottla(
        "quota", "set", "--client", client, "producer_byte_rate=10MiB", "consumer_byte_rate=500000", "--json"
    ).json
    assert changed["set"] == {"producer_byte_rate": 10_485_760.0, "consumer_byte_rate": 500_000.0}

    eventually(lambda: quotas_of(ottla, "--client", client) == changed["set"])
    assert client in ottla("quota", "get").stdout

    ottla("quota", "remove", "--client", client, "producer_byte_rate")
    eventually(lambda: quotas_of(ottla, "--client", client) == {"consumer_byte_rate": 500_000.0})
    ottla("quota", "remove", "--client", client)
    eventually(lambda: quotas_of(ottla, "--client", client) == {})


def test_the_default_and_a_user_with_a_client_are_entities_of_their_own(ottla: Ottla, client: str) -> None:
    ottla("quota", "set", "--user", client, "--client", client, "producer_byte_rate=1000")
    ottla("quota", "set", "--default-client", "producer_byte_rate=2000")
    try:
        both = ("--user", client, "--client", client)
        eventually(lambda: quotas_of(ottla, *both) == {"producer_byte_rate": 1000.0})
        eventually(lambda: quotas_of(ottla, "--default-client") == {"producer_byte_rate": 2000.0})
        assert quotas_of(ottla, "--client", client) == {}
        names = [(entry["user"], entry["client_id"]) for entry in ottla("quota", "get", "--json").json]
        assert (client, client) in names
        assert (None, "<default>") in names
    finally:
        ottla("quota", "remove", "--user", client, "--client", client)
        ottla("quota", "remove", "--default-client")


def test_a_quota_that_does_not_exist_is_refused(ottla: Ottla, client: str) -> None:
    assert "ottla: The broker refused: " in ottla("quota", "set", "--client", client, "colour=5", code=1).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["set", "producer_byte_rate=5"],
        ["remove"],
        ["set", "--client", "a", "producer_byte_rate=lots"],
        ["get", "--client", "a", "--default-client"],
    ],
)
def test_wrong_usage(ottla: Ottla, arguments: list[str]) -> None:
    ottla("quota", *arguments, code=2)
