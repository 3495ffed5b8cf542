"""The one place that knows what librdkafka's errors mean and how it is told where to log.

librdkafka has error codes of its own below -1 (no broker, time-out, full queue). Here they become exceptions of
`ottla.client.errors`, like the ones a broker sends, so that a program catches one kind of thing.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ottla.client.errors import BY_CODE, ClientError, RefusedError, TimedOutError, TopicNotFoundError, UnreachableError
from ottla.errors import ErrorCode

logger = logging.getLogger("ottla.client")

_UNREACHABLE = frozenset(
    (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._NODE_UPDATE)
)
_TIMED_OUT = frozenset(
    (KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._WAIT_COORD)
)
_NOT_FOUND = frozenset((KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION))

_CODES = frozenset(int(code) for code in ErrorCode)


def broker_code(code: int) -> ErrorCode | None:
    """Kafka's error code, or None for one of librdkafka's own."""
    return ErrorCode(code) if code in _CODES else None


def error_class(code: int) -> type[ClientError]:
    if code in _UNREACHABLE:
        return UnreachableError
    if code in _TIMED_OUT:
        return TimedOutError
    if code in _NOT_FOUND:
        return TopicNotFoundError
    known = broker_code(code)
    if known is None:
        return ClientError
    return BY_CODE.get(known, RefusedError)


def to_error(error: Any, doing: str = "", kind: type[ClientError] | None = None) -> ClientError:
    """The exception for a KafkaError. `doing` says what was tried; `kind` overrides the class."""
    code = int(error.code())
    text = f"{doing}: {error.str()}" if doing else str(error.str())
    made = (kind or error_class(code))(text)
    made.code = broker_code(code)
    made.retriable = bool(error.retriable())
    return made


@contextmanager
def translated(doing: str, kind: type[ClientError] | None = None) -> Iterator[None]:
    """Let what librdkafka raises inside out as a ClientError."""
    try:
        yield
    except KafkaException as failure:
        raise to_error(failure.args[0], doing, kind) from failure


def on_error(error: Any) -> None:
    """librdkafka's error callback: news, not failures. What fails is told to the one who waits for it."""
    logger.log(_level(error), "%s", error.str())


def _level(error: Any) -> int:
    if error.fatal():
        return logging.ERROR
    # A connection that breaks is in librdkafka's own log already.
    one_broker = error.code() in _UNREACHABLE and error.code() != KafkaError._ALL_BROKERS_DOWN
    return logging.DEBUG if one_broker else logging.WARNING
