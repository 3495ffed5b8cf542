"""Ottla: a message queue that speaks the Kafka protocol, durable by default.

    import ottla

    with ottla.open("./queue") as queue:
        queue.enqueue("client-7", {"temperature": 21.5})

The names below are loaded when they are first used: a broker never loads the client library, and `import ottla` costs
next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.async_consumer import AsyncConsumer
    from ottla.client.async_producer import AsyncProducer
    from ottla.client.cluster import NewTopic, ResourceType
    from ottla.client.consumer import Consumer
    from ottla.client.delivery import DeliveryFuture, RecordMetadata
    from ottla.client.errors import ClientError, ProducerFencedError, TransactionAbortedError, TransactionError
    from ottla.client.message import Message
    from ottla.client.producer import Producer
    from ottla.client.queue import Enqueued, Queue, open_queue
    from ottla.client.queue_consumer import QueueConsumer, QueueMessage
    from ottla.client.queue_target import QueueMode
    from ottla.client.settings import (
        AckMode,
        AdminConfig,
        ConsumerConfig,
        IsolationLevel,
        OffsetResetPolicy,
        OnBadRecord,
        ProducerConfig,
    )
    from ottla.errors import ErrorCode, OttlaError
    from ottla.types import TopicPartition

    open = open_queue  # noqa: A001  # as `ottla.open` it hides nothing

_HOMES = {
    "AckMode": "ottla.client.settings",
    "Admin": "ottla.client.admin",
    "AdminConfig": "ottla.client.settings",
    "AsyncConsumer": "ottla.client.async_consumer",
    "AsyncProducer": "ottla.client.async_producer",
    "ClientError": "ottla.client.errors",
    "Consumer": "ottla.client.consumer",
    "ConsumerConfig": "ottla.client.settings",
    "DeliveryFuture": "ottla.client.delivery",
    "Enqueued": "ottla.client.queue",
    "ErrorCode": "ottla.errors",
    "IsolationLevel": "ottla.client.settings",
    "Message": "ottla.client.message",
    "NewTopic": "ottla.client.cluster",
    "OffsetResetPolicy": "ottla.client.settings",
    "OnBadRecord": "ottla.client.settings",
    "OttlaError": "ottla.errors",
    "Producer": "ottla.client.producer",
    "ProducerConfig": "ottla.client.settings",
    "ProducerFencedError": "ottla.client.errors",
    "Queue": "ottla.client.queue",
    "QueueConsumer": "ottla.client.queue_consumer",
    "QueueMessage": "ottla.client.queue_consumer",
    "QueueMode": "ottla.client.queue_target",
    "RecordMetadata": "ottla.client.delivery",
    "ResourceType": "ottla.client.cluster",
    "TopicPartition": "ottla.types",
    "TransactionAbortedError": "ottla.client.errors",
    "TransactionError": "ottla.client.errors",
}

__all__ = [
    "AckMode",
    "Admin",
    "AdminConfig",
    "AsyncConsumer",
    "AsyncProducer",
    "ClientError",
    "Consumer",
    "ConsumerConfig",
    "DeliveryFuture",
    "Enqueued",
    "ErrorCode",
    "IsolationLevel",
    "Message",
    "NewTopic",
    "OffsetResetPolicy",
    "OnBadRecord",
    "OttlaError",
    "Producer",
    "ProducerConfig",
    "ProducerFencedError",
    "Queue",
    "QueueConsumer",
    "QueueMessage",
    "QueueMode",
    "RecordMetadata",
    "ResourceType",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionError",
]
"""What `from ottla import *` gives. Not `open`, which would hide Python's own: it is `ottla.open`."""


def __getattr__(name: str) -> object:
    if name == "open":
        return import_module("ottla.client.queue").open_queue
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "open"})
