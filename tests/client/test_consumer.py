"""Reading without others, against a real node. What a group does with several members is in test_consumer_groups."""

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError, ClosedError, DeserializationError, OffsetOutOfRangeError
from ottla.client.message import Message
from ottla.client.settings import ConsumerConfig, OffsetResetPolicy
from ottla.errors import ConfigError
from ottla.testing.pytest_plugin import OttlaNode, OttlaTopic
from ottla.types import TopicPartition
from tests.client.waiting import eventually

two_partitions = pytest.mark.parametrize("ottla_topic", [2], indirect=True)


def fill(topic: OttlaTopic, count: int, partition: int = 0, first_timestamp_ms: int | None = None) -> None:
    producer = topic.producer()
    for number in range(count):
        timestamp_ms = None if first_timestamp_ms is None else first_timestamp_ms + number
        producer.send(topic.name, b"%d" % number, partition=partition, timestamp_ms=timestamp_ms)
    producer.flush()


def offsets(messages: list[Message], partition: int = 0) -> list[int]:
    return [message.offset for message in messages if message.partition == partition]


def poll_all(consumer: Consumer, count: int, **options: Any) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        batch = consumer.poll(10_000, **options)
        assert batch, f"only {len(messages)} of {count} messages came"
        messages += batch
    return messages


def test_messages_come_in_order_and_read_like_mappings(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 3)

    messages = poll_all(ottla_topic.consumer(), 3)

    assert [message["offset"] for message in messages] == [0, 1, 2]
    assert [dict(message)["value"] for message in messages] == [b"0", b"1", b"2"]


def test_polling_returns_as_soon_as_there_is_something(ottla_topic: OttlaTopic) -> None:
    consumer, producer = ottla_topic.consumer(), ottla_topic.producer()
    producer.send(ottla_topic.name, b"first").result(10)
    poll_all(consumer, 1)

    timer = threading.Timer(0.1, producer.send, (ottla_topic.name, b"second"))
    timer.start()
    before = time.monotonic()
    messages = consumer.poll(30_000)

    assert [message.value for message in messages] == [b"second"]
    assert time.monotonic() - before < 10
    timer.join()


def test_polling_an_empty_topic_ends_in_time(ottla_topic: OttlaTopic) -> None:
    assert ottla_topic.consumer().poll(50) == []


def test_no_more_messages_come_than_asked_for(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 25)
    consumer = ottla_topic.consumer(max_poll_records=10)

    assert len(eventually(lambda: consumer.poll(1_000, max_records=3))) <= 3
    rest = [len(batch) for batch in iter(lambda: consumer.poll(1_000), [])]
    assert max(rest) <= 10
    assert consumer.position((ottla_topic.name, 0)) == 25


def test_a_loop_gets_one_message_after_the_other_and_ends_when_none_comes(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    consumer = ottla_topic.consumer()
    poll_all(consumer, 1, max_records=1)

    assert [message.offset for message in consumer.messages(timeout_ms=500)] == list(range(1, 10))


def test_what_was_committed_is_where_the_group_goes_on(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    with ottla_topic.consumer(group_id="manual", enable_auto_commit=False) as consumer:
        poll_all(consumer, 4, max_records=1)
        consumer.commit()
        poll_all(consumer, 3, max_records=1)

    with ottla_topic.consumer(group_id="manual") as consumer:
        assert poll_all(consumer, 1)[0].offset == 4


def test_offsets_can_be_committed_by_name(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    consumer = ottla_topic.consumer(group_id="named", enable_auto_commit=False)
    poll_all(consumer, 10)

    consumer.commit({(ottla_topic.name, 0): 7})

    assert consumer.committed() == {TopicPartition(ottla_topic.name, 0): 7}
    assert consumer.committed([(ottla_topic.name, 0)]) == {TopicPartition(ottla_topic.name, 0): 7}


def test_committing_in_a_loop_covers_what_the_loop_has_got_and_no_more(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    consumer = ottla_topic.consumer(group_id="loop", enable_auto_commit=False)

    for message in consumer:
        if message.offset == 3:
            break
    consumer.commit()

    assert consumer.committed() == {TopicPartition(ottla_topic.name, 0): 4}
    assert consumer.position((ottla_topic.name, 0)) == 4


def test_without_a_commit_there_is_none(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 3)
    consumer = ottla_topic.consumer(enable_auto_commit=False)
    poll_all(consumer, 3)

    assert consumer.committed() == {TopicPartition(ottla_topic.name, 0): None}


def test_closing_commits_what_was_handed_out(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    with ottla_topic.consumer(group_id="auto") as consumer:
        poll_all(consumer, 6, max_records=1)

    assert committed(ottla_topic, "auto") == 6


def test_a_block_that_fails_does_not_commit_what_it_was_given_last(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)

    def fail_at_the_fifth() -> None:
        with ottla_topic.consumer(group_id="failing") as consumer:
            for message in consumer:
                if message.offset == 4:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_at_the_fifth()

    assert committed(ottla_topic, "failing") == 4


def test_the_automatic_commit_covers_only_what_the_program_came_back_from(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    commits: list[int] = []

    def note(offsets: Mapping[TopicPartition, int], error: ClientError | None) -> None:
        assert error is None
        commits.extend(offsets.values())

    consumer = ottla_topic.consumer(group_id="timer", auto_commit_interval_ms=50, on_commit=note)
    poll_all(consumer, 4, max_records=4)
    assert commits == []

    poll_all(consumer, 2, max_records=2)
    consumer.pause()
    eventually(lambda: consumer.poll(20) or commits)

    assert commits[0] in (4, 6)
    assert committed(ottla_topic, "timer") == commits[-1]


def committed(topic: OttlaTopic, group: str) -> int:
    return topic.admin().group_offsets(group)[TopicPartition(topic.name, 0)].offset


def test_commits_without_waiting_are_reported(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 5)
    commits: list[tuple[Mapping[TopicPartition, int], ClientError | None]] = []
    consumer = ottla_topic.consumer(enable_auto_commit=False, on_commit=lambda *commit: commits.append(commit))
    poll_all(consumer, 5)

    consumer.commit_async()
    eventually(lambda: consumer.poll(20) or commits)

    assert commits == [({TopicPartition(ottla_topic.name, 0): 5}, None)]


def test_seeking_goes_anywhere(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 100, first_timestamp_ms=1_000_000)
    consumer, at = ottla_topic.consumer(), (ottla_topic.name, 0)
    poll_all(consumer, 100)

    consumer.seek(at, 42)
    assert consumer.position(at) == 42
    assert poll_all(consumer, 1)[0].offset == 42

    consumer.seek_to_beginning()
    assert poll_all(consumer, 1)[0].offset == 0

    consumer.seek_to_time(1_000_077, at)
    assert poll_all(consumer, 1)[0].offset == 77

    consumer.seek_to_end(at)
    ottla_topic.producer().send(ottla_topic.name, b"last").result(10)
    assert poll_all(consumer, 1)[0].value == b"last"


def test_a_time_after_all_records_is_the_end(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 3, first_timestamp_ms=1_000_000)
    consumer = ottla_topic.consumer()
    poll_all(consumer, 3)

    consumer.seek_to_time(2_000_000)
    ottla_topic.producer().send(ottla_topic.name, b"last").result(10)

    assert poll_all(consumer, 1)[0].value == b"last"


def test_a_seek_in_a_loop_drops_what_was_fetched(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    consumer, seen = ottla_topic.consumer(), []

    for message in consumer.messages(timeout_ms=10_000):
        seen.append(message.offset)
        if seen == [0, 1]:
            consumer.seek((ottla_topic.name, 0), 8)
        if message.offset == 9:
            break

    assert seen == [0, 1, 8, 9]


def test_a_position_that_was_sought_is_committed(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    consumer = ottla_topic.consumer(enable_auto_commit=False)
    poll_all(consumer, 10)

    consumer.seek((ottla_topic.name, 0), 2)
    consumer.commit()

    assert consumer.committed() == {TopicPartition(ottla_topic.name, 0): 2}


@two_partitions
def test_a_paused_partition_is_silent_until_it_is_resumed(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 50, partition=0)
    fill(ottla_topic, 50, partition=1)
    consumer = ottla_topic.consumer(max_poll_records=10)
    poll_all(consumer, 1, max_records=1)
    paused = (ottla_topic.name, 0)
    before = consumer.position(paused) or 0

    consumer.pause(paused)
    others = list(consumer.messages(timeout_ms=500))
    consumer.resume(paused)
    rest = list(consumer.messages(timeout_ms=2_000))

    assert {message.partition for message in others} <= {1}
    assert offsets(rest, 0) == list(range(before, 50))


@two_partitions
def test_pausing_in_a_loop_keeps_back_what_was_fetched(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 20, partition=0)
    fill(ottla_topic, 20, partition=1)
    consumer = ottla_topic.consumer(enable_auto_commit=False)
    first = next(iter(consumer))
    paused, other = first.partition, 1 - first.partition

    consumer.pause((ottla_topic.name, paused))
    during = list(consumer.messages(timeout_ms=1_000))
    consumer.commit()
    consumer.resume((ottla_topic.name, paused))
    after = list(consumer.messages(timeout_ms=1_000))

    assert offsets(during, other) == list(range(20))
    assert offsets(during, paused) == []
    assert consumer.committed([(ottla_topic.name, paused)]) == {TopicPartition(ottla_topic.name, paused): 1}
    assert offsets(after, paused) == list(range(1, 20))


@two_partitions
def test_partitions_can_be_assigned_without_a_group(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 5, partition=0)
    fill(ottla_topic, 5, partition=1)
    config = ConsumerConfig(
        bootstrap_servers=ottla_topic.bootstrap_servers, auto_offset_reset=OffsetResetPolicy.EARLIEST
    )
    with Consumer(config) as consumer:
        consumer.assign([(ottla_topic.name, 1)])
        assert consumer.assignment() == {TopicPartition(ottla_topic.name, 1)}
        assert offsets(poll_all(consumer, 5), 1) == [0, 1, 2, 3, 4]

        consumer.assign({(ottla_topic.name, 0): 3})
        assert offsets(poll_all(consumer, 2), 0) == [3, 4]


def test_a_seek_right_after_an_assign_works(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 10)
    consumer = Consumer(bootstrap_servers=ottla_topic.bootstrap_servers)
    consumer.assign([(ottla_topic.name, 0)])

    consumer.seek((ottla_topic.name, 0), 6)

    assert poll_all(consumer, 1)[0].offset == 6
    consumer.close()


def test_seeking_in_a_partition_that_is_not_read_is_refused(ottla_topic: OttlaTopic) -> None:
    with pytest.raises(ClientError):
        ottla_topic.consumer().seek((ottla_topic.name, 5), 0)


def test_without_a_group_there_is_nothing_to_subscribe_or_commit(ottla_topic: OttlaTopic) -> None:
    with Consumer(bootstrap_servers=ottla_topic.bootstrap_servers) as consumer:
        with pytest.raises(ConfigError):
            consumer.subscribe(ottla_topic.name)
        with pytest.raises(ConfigError):
            consumer.commit()


def test_a_consumer_that_may_not_reset_says_that_it_has_no_offset(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 1)
    consumer = ottla_topic.consumer(auto_offset_reset=OffsetResetPolicy.NONE)

    with pytest.raises(OffsetOutOfRangeError):
        eventually(lambda: consumer.poll(1_000))


def test_a_topic_that_is_made_later_is_read_when_it_comes(ottla_node: OttlaNode) -> None:
    name = f"later-{time.monotonic_ns()}"
    consumer = ottla_node.consumer(name, metadata_max_age_ms=200)
    assert consumer.poll(300) == []

    ottla_node.producer().send(name, b"x").result(20)

    assert poll_all(consumer, 1)[0].value == b"x"
    consumer.close()


def test_topics_can_be_chosen_by_a_pattern(ottla_topic: OttlaTopic) -> None:
    fill(ottla_topic, 3)
    consumer = ottla_topic.consumer(ottla_topic.name[:-1] + "nothing")
    consumer.subscribe(pattern=ottla_topic.name.replace("-", "."))

    assert [message.topic for message in poll_all(consumer, 3)] == [ottla_topic.name] * 3


def test_a_record_that_cannot_be_read_is_passed_by_seeking(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer()
    for value in (b"1", b"?", b"3"):
        producer.send(ottla_topic.name, value).result(10)
    consumer = ottla_topic.consumer(value_deserializer=int)

    assert [message.value for message in poll_all(consumer, 1)] == [1]
    with pytest.raises(DeserializationError) as bad:
        consumer.poll(10_000)
    consumer.seek((bad.value.topic, bad.value.partition), bad.value.offset + 1)

    assert [message.value for message in poll_all(consumer, 1)] == [3]


def test_waking_up_ends_a_poll_that_waits(ottla_topic: OttlaTopic) -> None:
    consumer = ottla_topic.consumer()
    timer = threading.Timer(0.1, consumer.wakeup)
    timer.start()
    before = time.monotonic()

    assert consumer.poll(60_000) == []
    assert time.monotonic() - before < 30
    timer.join()


def test_closing_from_another_thread_ends_a_loop(ottla_topic: OttlaTopic) -> None:
    consumer = ottla_topic.consumer()
    timer = threading.Timer(0.1, consumer.close)
    timer.start()

    assert list(consumer) == []
    timer.join()
    with pytest.raises(ClosedError):
        consumer.poll(0)
    with pytest.raises(ClosedError):
        next(iter(consumer))


def test_the_lag_is_told_in_records_and_in_seconds(ottla_topic: OttlaTopic) -> None:
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    fill(ottla_topic, 10, first_timestamp_ms=an_hour_ago)
    consumer = ottla_topic.consumer()
    poll_all(consumer, 4, max_records=1)

    [behind] = consumer.lag()
    consumer.seek_to_end()
    consumer.seek((ottla_topic.name, 0), 10)
    [caught_up] = consumer.lag()

    assert (behind.position, behind.end_offset, behind.records) == (4, 10, 6)
    assert behind.seconds == pytest.approx(3600, abs=60)
    assert (caught_up.records, caught_up.seconds) == (0, 0.0)
