"""What differs between two images: for a node that was so far behind that it got a snapshot instead of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ottla.metadata.image import MetadataImage
from ottla.metadata.state import Changes

K = TypeVar("K")


def changes_between(old: MetadataImage, new: MetadataImage) -> Changes:
    changes = Changes(
        topics_deleted=[topic for topic_id, topic in old.topics_by_id.items() if topic_id not in new.topics_by_id],
        configs=_differing(old.configs, new.configs),
        brokers=_differing(old.brokers, new.brokers),
        client_quotas=old.client_quotas != new.client_quotas,
        features=old.features != new.features,
    )
    for topic_id, topic in new.topics_by_id.items():
        before = old.topics_by_id.get(topic_id)
        if before is None:
            changes.topics_created[topic.name] = topic
        elif before != topic:
            changes.topics_changed[topic.name] = topic
    return changes


def _differing(old: Mapping[K, object], new: Mapping[K, object]) -> set[K]:
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
