"""Transactions of the Python API, against a real node."""

import pytest

from ottla.client.consumer import Consumer
from ottla.client.errors import (
    CommitFailedError,
    DeliveryError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
)
from ottla.client.producer import Producer
from ottla.client.settings import AckMode, IsolationLevel, ProducerConfig
from ottla.errors import ConfigError
from ottla.testing.pytest_plugin import OttlaTopic

two_partitions = pytest.mark.parametrize("ottla_topic", [2], indirect=True)
PATIENCE_MS = 10_000


def transactional(topic: OttlaTopic, **settings: object) -> Producer:
    return topic.producer(**{"transactional_id": f"{topic.name}-writer", **settings})


def committed_values(topic: OttlaTopic, count: int, *names: str) -> list[object]:
    """The first `count` that a reader of committed records gets."""
    consumer = topic.consumer(*names, isolation_level=IsolationLevel.READ_COMMITTED)
    values: list[object] = []
    while len(values) < count:
        messages = consumer.poll(PATIENCE_MS)
        assert messages, f"only {values} came"
        values += [message.value for message in messages]
    return values


def reader(topic: OttlaTopic, group: str, **settings: object) -> Consumer:
    return topic.consumer(
        **{
            "group_id": group,
            "enable_auto_commit": False,
            "isolation_level": IsolationLevel.READ_COMMITTED,
            **settings,
        }
    )


def test_what_is_sent_in_a_transaction_is_visible_when_it_ends(ottla_topic: OttlaTopic) -> None:
    producer = transactional(ottla_topic)

    with producer.transaction():
        producer.send(ottla_topic.name, b"one").result(10)
        hidden = ottla_topic.consumer(isolation_level=IsolationLevel.READ_COMMITTED).poll(300)
        producer.send(ottla_topic.name, b"two")

    assert hidden == []
    assert committed_values(ottla_topic, 2) == [b"one", b"two"]


def test_an_exception_takes_everything_back(ottla_topic: OttlaTopic) -> None:
    producer = transactional(ottla_topic)

    def fails() -> None:
        with producer.transaction():
            producer.send(ottla_topic.name, b"never").result(10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with producer.transaction():
        producer.send(ottla_topic.name, b"after")

    assert committed_values(ottla_topic, 1) == [b"after"]


def test_a_record_that_was_still_waiting_when_its_transaction_was_aborted_fails_and_closing_is_quiet(
    ottla_topic: OttlaTopic,
) -> None:
    producer = transactional(ottla_topic, linger_ms=5_000)

    with producer.transaction() as transaction:
        future = producer.send(ottla_topic.name, b"never")
        transaction.abort()

    producer.close()
    with pytest.raises(DeliveryError):
        future.result(10)


def test_a_producer_that_was_replaced_is_told_that_it_is_fenced(ottla_topic: OttlaTopic) -> None:
    old = transactional(ottla_topic)
    transaction = old.transaction().__enter__()
    old.send(ottla_topic.name, b"zombie").result(10)
    new = transactional(ottla_topic)

    with pytest.raises(ProducerFencedError) as caught:
        transaction.commit()
    with new.transaction():
        new.send(ottla_topic.name, b"alive")

    assert "another producer with the same transactional id" in str(caught.value)
    assert not caught.value.retriable
    with pytest.raises(ProducerFencedError), old.transaction():
        pass
    assert committed_values(ottla_topic, 1) == [b"alive"]


def test_a_transaction_that_took_too_long_is_not_committed(ottla_topic: OttlaTopic) -> None:
    producer = transactional(ottla_topic, transaction_timeout_ms=1_000)
    raw_reader = ottla_topic.consumer(isolation_level=IsolationLevel.READ_COMMITTED)

    transaction = producer.transaction().__enter__()
    producer.send(ottla_topic.name, b"late").result(10)
    ottla_topic.producer().send(ottla_topic.name, b"plain").result(10)
    # A plain record behind the open transaction shows when the cluster has ended that.
    assert [message.value for message in raw_reader.poll(PATIENCE_MS * 3)] == [b"plain"]

    with pytest.raises(TransactionError):
        transaction.commit()


@two_partitions
def test_offsets_are_stored_with_the_transaction_or_not_at_all(ottla_topic: OttlaTopic) -> None:
    source = ottla_topic.producer()
    for number in range(10):
        source.send(ottla_topic.name, str(number), partition=number % 2)
    source.flush()
    output = f"{ottla_topic.name}-out"
    ottla_topic.admin().create_topic(output)
    producer = transactional(ottla_topic)
    consumer = reader(ottla_topic, "mover")
    messages = consumer.poll(PATIENCE_MS, max_records=4)

    with producer.transaction() as transaction:
        producer.send_offsets(consumer)
        transaction.abort()
    assert set(consumer.committed().values()) == {None}

    consumer.rewind(messages)
    seen: list[object] = []
    while len(seen) < 10:
        messages = consumer.poll(PATIENCE_MS)
        with producer.transaction():
            for message in messages:
                producer.send(output, message.value)
            producer.send_offsets(consumer)
        seen += [message.value for message in messages]

    assert sorted(seen, key=repr) == [b"%d" % number for number in range(10)]
    assert set(consumer.committed().values()) == {5}
    assert committed_values(ottla_topic, 10, output) == seen


def test_offsets_of_a_member_that_the_group_has_replaced_abort_the_transaction(ottla_topic: OttlaTopic) -> None:
    ottla_topic.producer().send(ottla_topic.name, b"x").result(10)
    producer = transactional(ottla_topic)
    slow = reader(ottla_topic, "shared", session_timeout_ms=6_000, max_poll_interval_ms=6_000)
    assert slow.poll(PATIENCE_MS)

    quick = reader(ottla_topic, "shared")
    assert quick.poll(PATIENCE_MS * 3)  # since the slow one does not poll, the group goes on without it

    with pytest.raises((TransactionAbortedError, CommitFailedError)), producer.transaction():
        producer.send_offsets(slow)
    with producer.transaction():
        producer.send_offsets(quick)
    assert set(quick.committed().values()) == {1}


def test_without_a_transaction_nothing_is_taken(ottla_topic: OttlaTopic) -> None:
    with pytest.raises(TransactionError, match="no transaction is open"):
        transactional(ottla_topic).send(ottla_topic.name, b"x")


def test_transactions_of_one_producer_do_not_nest(ottla_topic: OttlaTopic) -> None:
    producer = transactional(ottla_topic)
    with producer.transaction(), pytest.raises(TransactionError), producer.transaction():
        pass


def test_a_producer_without_an_id_has_no_transactions(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer()
    with pytest.raises(ConfigError, match="transactional_id"):
        producer.transaction()
    with pytest.raises(ConfigError, match="transactional_id"):
        producer.send_offsets(ottla_topic.consumer())


def test_a_consumer_that_commits_by_itself_is_refused(ottla_topic: OttlaTopic) -> None:
    producer = transactional(ottla_topic)
    with pytest.raises(ConfigError, match="enable_auto_commit"), producer.transaction():
        producer.send_offsets(ottla_topic.consumer())


@pytest.mark.parametrize(
    "settings",
    [
        {"transactional_id": ""},
        {"transactional_id": "x", "acks": AckMode.LEADER},
        {"transactional_id": "x", "enable_idempotence": False},
        {"transactional_id": "x", "transaction_timeout_ms": 0},
    ],
)
def test_settings_that_rule_out_transactions_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ProducerConfig(**settings)  # type: ignore[arg-type]  # any setting may be among them
