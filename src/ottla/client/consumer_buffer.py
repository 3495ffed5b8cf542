"""What has been fetched but not handed out yet, and how it becomes messages.

librdkafka counts a record as read when we take it. The program has it only when `poll` returns it, so that what lies
in between must be known when offsets are committed (`first_offsets`), and must vanish at a seek or a lost partition.
Records are turned into messages at the last moment: one that can't be stays here, at the head, until it is sought past.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

from ottla.client.errors import ClientError, DeserializationError
from ottla.client.librdkafka import logger
from ottla.client.message import Message
from ottla.client.serialization import Deserializer
from ottla.client.settings import ConsumerConfig, OnBadRecord
from ottla.types import TopicPartition


class ConsumerBuffer:
    """In the order in which librdkafka gave them. `on_error` decides about records that are no records but news of
    an error: it raises, or returns to go on."""

    def __init__(self, config: ConsumerConfig, on_error: Callable[[Any], None]) -> None:
        self._key = config.key_deserializer
        self._value = config.value_deserializer
        self._policy = config.on_bad_record
        self._on_error = on_error
        self._ready: deque[Any] = deque()
        self._held: dict[TopicPartition, list[Any]] = {}

    def add(self, raw_messages: Iterable[Any]) -> None:
        self._ready.extend(raw_messages)

    def take(self, limit: int) -> list[Message]:
        """At most `limit` messages. Raises only if there is no good message before the bad one."""
        if self._key is None and self._value is None and len(self._ready) <= limit:
            taken = [_message(raw) for raw in self._ready if raw.error() is None]
            if len(taken) == len(self._ready):
                self._ready.clear()
                return taken
        return self._take_one_by_one(limit)

    def _take_one_by_one(self, limit: int) -> list[Message]:
        taken: list[Message] = []
        while self._ready and len(taken) < limit:
            raw = self._ready.popleft()
            try:
                message = self._convert(raw)
            except ClientError as failure:
                if taken or isinstance(failure, DeserializationError):
                    self._ready.appendleft(raw)
                if taken:
                    return taken
                raise
            if message is not None:
                taken.append(message)
        return taken

    def _convert(self, raw: Any) -> Message | None:
        if raw.error() is not None:
            self._on_error(raw.error())
            return None
        message = _message(raw)
        try:
            key, value = self._deserialized(self._key, message.key), self._deserialized(self._value, message.value)
        except Exception as failure:
            return self._bad(message, failure)
        message.key, message.value = key, value
        return message

    @staticmethod
    def _deserialized(deserializer: Deserializer | None, data: bytes | None) -> Any:
        return data if deserializer is None or data is None else deserializer(data)

    def _bad(self, message: Message, failure: Exception) -> Message | None:
        error = DeserializationError(
            f"{message.topic_partition} at offset {message.offset} can't be read: {failure}",
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            raw=message.value,
        )
        if self._policy is OnBadRecord.RAISE:
            raise error from failure
        if self._policy is OnBadRecord.SKIP:
            logger.warning("skipped a record: %s", error)
            return None
        message.error = error
        return message

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        """Keep back what is here of paused partitions."""
        for at, raw_messages in self._remove(partitions).items():
            self._held.setdefault(at, []).extend(raw_messages)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            self._ready.extendleft(reversed(self._held.pop(at, ())))

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        self._remove(partitions)
        for at in partitions:
            self._held.pop(at, None)

    def clear(self) -> None:
        self._ready.clear()
        self._held.clear()

    def _remove(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, list[Any]]:
        removed: dict[TopicPartition, list[Any]] = {}
        kept: deque[Any] = deque()
        for raw in self._ready:
            at = _partition(raw)
            if at in partitions:
                removed.setdefault(at, []).append(raw)
            else:
                kept.append(raw)
        self._ready = kept
        return removed

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Per partition, the first record that the program has not been given."""
        first: dict[TopicPartition, int] = {}
        for raw in self._ready:
            if raw.error() is None:
                first.setdefault(_partition(raw), raw.offset())
        for at, raw_messages in self._held.items():
            first[at] = raw_messages[0].offset()
        return first

    def __len__(self) -> int:
        """Records that may be taken now."""
        return len(self._ready)


def _partition(raw: Any) -> TopicPartition:
    return TopicPartition(raw.topic(), raw.partition())


def _message(raw: Any) -> Message:
    return Message(
        raw.topic(), raw.partition(), raw.offset(), raw.timestamp()[1], raw.key(), raw.value(), raw.headers()
    )
