"""librdkafka (confluent-kafka): classic consumer groups, as members see them."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.interop.confluent import fill, new_consumer, new_producer, read, send
from tests.interop.conftest import MakeTopic
from tests.interop.waiting import eventually

QUICK = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 100}
"""A member learns of a rebalance with its next heartbeat."""


class Members:
    """Members of one group that are polled together, as if each had a thread of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: Any) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._settings = QUICK | settings
        self.joined: list[Consumer] = []
        self.revoked_from: list[Consumer] = []

    def join(self, **settings: Any) -> Consumer:
        consumer = new_consumer(self._bootstrap, self._group, **(self._settings | settings))
        consumer.subscribe([self._topic], on_revoke=lambda consumer, _: self.revoked_from.append(consumer))
        self.joined.append(consumer)
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self.joined.remove(consumer)
        consumer.close()

    def poll(self) -> None:
        for consumer in self.joined:
            message = consumer.poll(0.02)
            assert message is None or message.error() is None, message.error()

    def assignment(self) -> list[list[int]]:
        return [sorted(part.partition for part in consumer.assignment()) for consumer in self.joined]

    def settle(self, sizes: Sequence[int], partitions: int) -> list[list[int]]:
        """Poll until the partitions are spread in these numbers over the members, each partition once."""

        def spread() -> bool:
            self.poll()
            held = self.assignment()
            everything = sorted(partition for part in held for partition in part)
            return sorted(map(len, held)) == sorted(sizes) and everything == list(range(partitions))

        eventually(spread, within_s=30, what=f"assignment of sizes {sizes}")
        return self.assignment()


@contextlib.contextmanager
def _members(bootstrap: str, group: str, topic: str, **settings: Any) -> Iterator[Members]:
    members = Members(bootstrap, group, topic, **settings)
    try:
        yield members
    finally:
        for consumer in members.joined:
            consumer.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_partitions_are_spread_anew_when_members_come_and_go(
    bootstrap: str, make_topic: MakeTopic, unique: str, strategy: str
) -> None:
    topic = make_topic(partitions=6)
    with _members(bootstrap, unique, topic, partition_assignment_strategy=strategy) as members:
        first = members.join()
        members.settle([6], 6)
        members.join()
        members.settle([3, 3], 6)
        members.join()
        members.settle([2, 2, 2], 6)
        members.leave(first)
        members.settle([3, 3], 6)


def test_a_sticky_group_moves_only_what_it_must(bootstrap: str, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=4)
    with _members(bootstrap, unique, topic, partition_assignment_strategy="cooperative-sticky") as members:
        members.join()
        members.settle([4], 4)
        members.join()
        before, _ = members.settle([2, 2], 4)
        last = members.join()
        members.settle([2, 1, 1], 4)
        members.leave(last)
        after, _ = members.settle([2, 2], 4)

    assert set(before) & set(after)


def test_every_record_is_read_once_by_a_group_of_three(bootstrap: str, make_topic: MakeTopic, unique: str) -> None:
    topic = make_topic(partitions=6)
    for partition in range(6):
        fill(bootstrap, topic, 100, partition=partition)
    seen: list[tuple[int, int]] = []
    with _members(bootstrap, unique, topic) as members:
        for _ in range(3):
            members.join(auto_offset_reset="latest")
        members.settle([2, 2, 2], 6)
        for consumer in members.joined:
            for part in consumer.assignment():
                consumer.seek(TopicPartition(topic, part.partition, 0))
        for consumer in members.joined:
            seen += [(message.partition(), message.offset()) for message in read(consumer, 200)]

    assert sorted(seen) == [(partition, offset) for partition in range(6) for offset in range(100)]


def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str, unique: str) -> None:
    fill(bootstrap, topic, 20)
    with _members(bootstrap, unique, topic) as members:
        consumer = members.join()
        *_, last = read(consumer, 7)
        consumer.commit(message=last, asynchronous=False)

    with _members(bootstrap, unique, topic) as members:
        assert read(members.join(), 1)[0].offset() == 7


def test_offsets_are_committed_by_themselves_when_a_consumer_wants_that(
    bootstrap: str, topic: str, unique: str
) -> None:
    fill(bootstrap, topic, 20)
    with _members(bootstrap, unique, topic, enable_auto_commit=True) as members:
        read(members.join(), 20)

    consumer = new_consumer(bootstrap, unique)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)
    consumer.close()
    assert committed.offset == 20


def test_a_commit_keeps_its_metadata(bootstrap: str, topic: str, unique: str) -> None:
    consumer = new_consumer(bootstrap, unique)
    consumer.commit(offsets=[TopicPartition(topic, 0, 5, metadata="halfway")], asynchronous=False)

    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)

    assert (committed.offset, committed.metadata) == (5, "halfway")
    consumer.close()


def test_a_partition_without_a_commit_has_none(bootstrap: str, topic: str, unique: str) -> None:
    consumer = new_consumer(bootstrap, unique)

    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)

    assert committed.offset == -1001
    consumer.close()


def test_a_member_that_was_thrown_out_can_not_commit(bootstrap: str, make_topic: MakeTopic, unique: str) -> None:
    """Its commit is not waited for in librdkafka, which has been seen to wait for ever here."""
    topic = make_topic(partitions=2)
    answers: list[KafkaError | None] = []
    with _members(bootstrap, unique, topic, session_timeout_ms=6000, max_poll_interval_ms=6000) as members:
        stalled = members.join(on_commit=lambda error, _offsets: answers.append(error))
        members.settle([2], 2)
        members.joined.remove(stalled)  # no longer polled: it exceeds max.poll.interval.ms
        members.join(max_poll_interval_ms=300_000)
        members.settle([2], 2)

        stalled.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=True)

        def is_answered() -> bool:
            stalled.poll(0.05)
            return bool(answers)

        eventually(is_answered, within_s=30, what="an answer to the commit")
        stalled.close()

    assert answers[0] is not None
    assert answers[0].code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)


def test_a_static_member_gets_its_partitions_back_without_a_rebalance(
    bootstrap: str, make_topic: MakeTopic, unique: str
) -> None:
    topic = make_topic(partitions=4)
    with _members(bootstrap, unique, topic) as members:
        other = members.join(group_instance_id="one")
        restarted = members.join(group_instance_id="two")
        before = members.settle([2, 2], 4)[1]
        members.revoked_from.clear()
        members.leave(restarted)  # a static member does not leave the group when it closes
        again = members.join(group_instance_id="two")

        def back() -> bool:
            members.poll()
            return bool(again.assignment())

        eventually(back)
        assert members.assignment()[1] == before
        assert other not in members.revoked_from


def test_a_second_holder_of_an_instance_id_fences_the_first(bootstrap: str, topic: str, unique: str) -> None:
    with _members(bootstrap, unique, topic, group_instance_id="same") as members:
        first = members.join()
        members.settle([1], 1)
        members.joined.remove(first)
        members.join()
        members.settle([1], 1)

        with pytest.raises(KafkaException) as failure:
            eventually(lambda: _raise_error(first))
        first.close()

    assert failure.value.args[0].code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def _raise_error(consumer: Consumer) -> bool:
    message = consumer.poll(0.1)
    if message is not None and message.error() is not None:
        raise KafkaException(message.error())
    return False


def test_members_without_a_common_strategy_can_not_be_in_one_group(bootstrap: str, topic: str, unique: str) -> None:
    with _members(bootstrap, unique, topic, partition_assignment_strategy="range") as members:
        members.join()
        members.settle([1], 1)
        stranger = members.join(partition_assignment_strategy="roundrobin")

        with pytest.raises(KafkaException) as failure:
            eventually(lambda: _raise_error(stranger))

    assert failure.value.args[0].code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL


def test_a_new_topic_that_matches_a_pattern_joins_the_group(bootstrap: str, make_topic: MakeTopic, unique: str) -> None:
    make_topic()
    consumer = new_consumer(bootstrap, unique, topic_metadata_refresh_interval_ms=200, **QUICK)
    consumer.subscribe([f"^{unique}-.*"])
    eventually(lambda: consumer.poll(0.05) or len(consumer.assignment()) == 1)

    second = make_topic()
    send(new_producer(bootstrap), second, [b"found"])
    eventually(lambda: (message := consumer.poll(0.05)) is not None and message.value() == b"found")

    consumer.close()


def test_a_group_sees_partitions_that_are_added(bootstrap: str, topic: str, unique: str, admin: AdminClient) -> None:
    with _members(bootstrap, unique, topic, topic_metadata_refresh_interval_ms=200) as members:
        members.join()
        members.settle([1], 1)
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(10)
        members.settle([3], 3)


def test_paused_partitions_hold_back_their_records(bootstrap: str, topic: str, unique: str) -> None:
    fill(bootstrap, topic, 10)
    consumer = new_consumer(bootstrap, unique)
    consumer.assign([TopicPartition(topic, 0, 0)])
    read(consumer, 1)
    consumer.pause([TopicPartition(topic, 0)])
    assert consumer.poll(0.3) is None

    consumer.resume([TopicPartition(topic, 0)])

    assert [message.offset() for message in read(consumer, 9)] == list(range(1, 10))
    consumer.close()
