import json
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ottla.client.consumer_buffer import ConsumerBuffer
from ottla.client.errors import ClientError, DeserializationError
from ottla.client.settings import ConsumerConfig, OnBadRecord
from ottla.types import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Raw:
    """A record, or news of an error, as librdkafka hands it over."""

    def __init__(
        self, partition: int, offset: int, value: bytes | None = b"1", error: KafkaError | None = None
    ) -> None:
        self._partition, self._offset, self._value, self._error = partition, offset, value, error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (1, 1000)

    def key(self) -> bytes | None:
        return b"k"

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> None:
        return None

    def error(self) -> KafkaError | None:
        return self._error


def refuse(error: Any) -> None:
    raise ClientError(f"refused: {error.name()}")


def buffer(*raw: Raw, on_error: Any = refuse, **settings: Any) -> ConsumerBuffer:
    made = ConsumerBuffer(ConsumerConfig(**settings), on_error)
    made.add(raw)
    return made


def offsets(made: ConsumerBuffer, limit: int = 100) -> list[tuple[int, int]]:
    return [(message.partition, message.offset) for message in made.take(limit)]


def test_records_are_taken_in_order_and_no_more_than_asked_for() -> None:
    made = buffer(Raw(0, 1), Raw(1, 7), Raw(0, 2))

    assert offsets(made, 2) == [(0, 1), (1, 7)]
    assert offsets(made, 2) == [(0, 2)]
    assert not made


def test_what_is_not_handed_out_yet_is_known_by_its_first_offset() -> None:
    made = buffer(Raw(0, 1), Raw(1, 7), Raw(0, 2))

    assert made.first_offsets() == {P0: 1, P1: 7}
    made.take(1)
    assert made.first_offsets() == {P0: 2, P1: 7}


def test_a_paused_partition_is_kept_back_until_it_is_released() -> None:
    made = buffer(Raw(0, 1), Raw(1, 7), Raw(0, 2))

    made.hold({P0})
    assert made.first_offsets() == {P0: 1, P1: 7}
    assert offsets(made) == [(1, 7)]
    assert not made

    made.release([P0])
    assert offsets(made) == [(0, 1), (0, 2)]


def test_a_dropped_partition_is_gone_even_if_it_was_kept_back() -> None:
    made = buffer(Raw(0, 1), Raw(1, 7))
    made.hold({P0})

    made.drop([P0, P1])
    made.release([P0])

    assert offsets(made) == []
    assert made.first_offsets() == {}


def test_news_of_an_error_that_does_not_matter_is_passed_over() -> None:
    told: list[str] = []
    news = Raw(0, -1, error=KafkaError(KafkaError._TRANSPORT))
    made = buffer(Raw(0, 1), news, Raw(0, 2), on_error=lambda error: told.append(error.name()))

    assert offsets(made) == [(0, 1), (0, 2)]
    assert told == ["_TRANSPORT"]


def test_an_error_comes_after_the_records_before_it() -> None:
    made = buffer(Raw(0, 1), Raw(0, -1, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), Raw(0, 2))

    assert offsets(made) == [(0, 1)]
    with pytest.raises(ClientError, match="TOPIC_AUTHORIZATION_FAILED"):
        made.take(100)
    assert offsets(made) == [(0, 2)]


def test_keys_and_values_are_deserialized_but_not_a_null() -> None:
    made = buffer(Raw(0, 1, b'{"a":1}'), Raw(0, 2, None), key_deserializer=bytes.decode, value_deserializer=json.loads)

    first, second = made.take(100)

    assert (first.key, first.value) == ("k", {"a": 1})
    assert second.value is None


def test_a_record_that_cannot_be_read_stays_at_the_head_and_says_where_it_is() -> None:
    made = buffer(Raw(0, 1), Raw(0, 2, b"{"), Raw(0, 3), value_deserializer=json.loads)

    assert offsets(made) == [(0, 1)]
    for _ in range(2):
        with pytest.raises(DeserializationError) as caught:
            made.take(100)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, 2)
        assert caught.value.raw == b"{"
    assert made.first_offsets() == {P0: 2}


def test_a_bad_record_may_be_skipped(caplog: pytest.LogCaptureFixture) -> None:
    made = buffer(Raw(0, 1, b"{"), Raw(0, 2), value_deserializer=json.loads, on_bad_record=OnBadRecord.SKIP)

    assert offsets(made) == [(0, 2)]
    assert "t-0 at offset 1" in caplog.text


def test_a_bad_record_may_be_kept_with_its_bytes_and_the_reason() -> None:
    made = buffer(Raw(0, 1, b"{"), value_deserializer=json.loads, on_bad_record=OnBadRecord.KEEP)

    [message] = made.take(100)

    assert message.value == b"{"
    assert isinstance(message.error, DeserializationError)
