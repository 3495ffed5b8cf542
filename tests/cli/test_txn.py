"""`ottla txn`."""

import pytest
from confluent_kafka import KafkaException, Producer

from tests.cli.command import Ottla
from tests.interop.waiting import eventually


@pytest.fixture
def opened(bootstrap: str, topic: str) -> Producer:
    """A transaction that is open, with the topic's name for its id."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0
    return producer


def mine(ottla: Ottla, topic: str, *options: str) -> list[dict[str, object]]:
    return [found for found in ottla("txn", "list", *options, "--json").json if found["transactional_id"] == topic]


def test_an_open_transaction_is_listed_and_described(ottla: Ottla, topic: str, opened: Producer) -> None:
    (listed,) = mine(ottla, topic, "--open")
    assert listed["state"] == "Ongoing"
    assert topic in ottla("txn", "list", "--state", "Ongoing").stdout
    assert mine(ottla, topic, "--longer-than", "1h") == []
    described = ottla("txn", "describe", topic, "--json").json
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}:0"])
    assert described["producer_id"] == listed["producer_id"]
    opened.commit_transaction(30)
    eventually(lambda: mine(ottla, topic, "--open") == [])


def test_an_abort_by_id_fences_the_producer(ottla: Ottla, topic: str, opened: Producer) -> None:
    aborted = ottla("txn", "abort", topic, "--yes", "--json").json
    assert aborted["aborted"] == topic
    assert mine(ottla, topic, "--open") == []
    with pytest.raises(KafkaException):
        opened.commit_transaction(30)
    assert ottla("consume", topic, "--from", "beginning", "--json").stdout == ""


def test_what_a_coordinator_knows_does_not_hang(ottla: Ottla, topic: str, opened: Producer) -> None:
    assert [found for found in ottla("txn", "list", "--hanging", "--json").json if found["topic"] == topic] == []
    opened.abort_transaction(30)


def test_what_hangs_in_a_partition_is_ended_there(ottla: Ottla, topic: str, opened: Producer) -> None:
    done = ottla("txn", "abort", "--partition", f"{topic}:0", "--start-offset", "0", "--yes", "--json").json
    assert done == {"aborted": f"{topic}-0", "start_offset": 0}
    refused = ottla("txn", "abort", "--partition", f"{topic}:0", "--yes", code=1)
    assert "No transaction is open" in refused.stderr
    opened.abort_transaction(30)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("describe", "nobody"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("abort", "nobody", "--yes"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("list", "--state", "Asleep"), "no state Asleep"),
    ],
)
def test_what_is_not_there_is_told(ottla: Ottla, arguments: tuple[str, ...], said: str) -> None:
    assert said in ottla("txn", *arguments, code=1).stderr


@pytest.mark.parametrize("arguments", [(), ("x", "--partition", "t:0"), ("--partition", "t")])
def test_an_abort_needs_an_id_or_a_partition(ottla: Ottla, arguments: tuple[str, ...]) -> None:
    ottla("txn", "abort", *arguments, code=2)
