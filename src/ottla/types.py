"""Names that every layer shares."""

import base64
from typing import NamedTuple

TopicId = bytes
"""The 16 bytes of a topic's UUID: raw, since they are looked up on every fetch and rarely printed."""

NO_TOPIC_ID: TopicId = bytes(16)
METADATA_TOPIC_ID: TopicId = bytes(15) + b"\x01"
"""Kafka's fixed id of `__cluster_metadata`."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_id_text(topic_id: TopicId) -> str:
    """As Kafka's tools print it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def topic_id_from_text(text: str) -> TopicId:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
