"""Where a consumer starts, and what it drops, around a rebalance: with a stand-in for librdkafka that plays races."""

from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka import TopicPartition as RawPartition

from ottla.client.consumer import Consumer
from ottla.client.consumer_starts import with_starts
from ottla.client.settings import ConsumerConfig, OffsetResetPolicy
from tests.client.test_consumer_buffer import Raw as RawRecord

FIRST, END = 3, 90


class Raw:
    """Knows a committed offset for partition 0 and none for partition 1."""

    def committed(self, partitions: list[Any], _: float) -> list[Any]:
        offsets = {0: 42, 1: OFFSET_INVALID}
        return [RawPartition(it.topic, it.partition, offsets[it.partition]) for it in partitions]

    def offsets_for_times(self, partitions: list[Any], _: float) -> list[Any]:
        offsets = {OFFSET_BEGINNING: FIRST, OFFSET_END: END}
        return [RawPartition(it.topic, it.partition, offsets[it.offset]) for it in partitions]


def starts(raw: Any, policy: OffsetResetPolicy) -> list[tuple[int, int]]:
    config = ConsumerConfig(group_id="g", auto_offset_reset=policy)
    found = with_starts(raw, [RawPartition("t", 0), RawPartition("t", 1)], config)
    return [(partition.partition, partition.offset) for partition in found]


@pytest.mark.parametrize(
    ("policy", "offset"),
    [
        (OffsetResetPolicy.EARLIEST, FIRST),
        (OffsetResetPolicy.LATEST, END),
        (OffsetResetPolicy.NONE, OFFSET_INVALID),
    ],
)
def test_every_partition_comes_with_its_offset(policy: OffsetResetPolicy, offset: int) -> None:
    assert starts(Raw(), policy) == [(0, 42), (1, offset)]


def test_when_the_coordinator_does_not_answer_librdkafka_is_left_to_it(caplog: pytest.LogCaptureFixture) -> None:
    class Silent(Raw):
        def committed(self, partitions: list[Any], _: float) -> list[Any]:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    assert starts(Silent(), OffsetResetPolicy.EARLIEST) == [(0, OFFSET_INVALID), (1, OFFSET_INVALID)]
    assert "left to librdkafka" in caplog.text


def test_records_of_a_partition_that_is_lost_while_they_are_gathered_are_dropped() -> None:
    consumer = Consumer(ConsumerConfig(bootstrap_servers="127.0.0.1:1", group_id="g"))

    class Racing(Raw):
        def consume(self, limit: int, timeout: float) -> list[Any]:
            consumer._revoked(None, [RawPartition("t", 0)])
            return [RawRecord(partition, 7) for partition in (0, 1)]

        def close(self) -> None:
            """It was never open."""

    consumer._raw = Racing()

    assert [(message.partition, message.offset) for message in consumer.poll(0)] == [(1, 7)]


def test_partitions_that_are_handed_over_while_it_closes_are_taken_without_a_question() -> None:
    """librdkafka would not answer it any more, and the close would last as long as a request may."""
    consumer = Consumer(ConsumerConfig(bootstrap_servers="127.0.0.1:1", group_id="g"))
    real, assigned = consumer._raw, list[Any]()

    class Closing(Raw):
        def committed(self, partitions: list[Any], _: float) -> list[Any]:
            raise AssertionError("asked while it closes")

        def assign(self, partitions: list[Any]) -> None:
            assigned.extend(partitions)

        def close(self) -> None:
            consumer._assigned(None, [RawPartition("t", 0)])

    consumer._raw = Closing()
    consumer.close()
    real.close()

    assert [(it.topic, it.partition) for it in assigned] == [("t", 0)]
