"""Which committed offsets have outlived their use.

A group that has been empty for the retention time is not coming back, and loses all of its offsets. A consumer that
assigns partitions by itself is never seen in its group, so each of its offsets lives for the retention time after
it was committed. The same goes for topics that a living group no longer subscribes to.
"""

from collections.abc import Iterator

from ottla.groups.group import Group
from ottla.groups.offsets import OffsetsByTopic
from ottla.groups.records import NEVER_EXPIRES_MS, OffsetCommitted
from ottla.groups.states import GroupState


def expired(group: Group, offsets: OffsetsByTopic, *, retention_ms: int, now_ms: int) -> Iterator[OffsetCommitted]:
    if group.protocol_type is None:
        kept_topics: frozenset[str] | None = frozenset()
        empty_since_ms = None
    elif group.state is GroupState.EMPTY:
        kept_topics = frozenset()
        empty_since_ms = None if group.state_timestamp_ms < 0 else group.state_timestamp_ms
    else:
        kept_topics = group.topics() if group.state is GroupState.STABLE else None
        empty_since_ms = None
    if kept_topics is None:
        return  # somebody may be reading any of them
    for topic in offsets.keys() - kept_topics:
        for record in offsets[topic].values():
            if _is_expired(record, empty_since_ms, retention_ms, now_ms):
                yield record


def _is_expired(record: OffsetCommitted, empty_since_ms: int | None, retention_ms: int, now_ms: int) -> bool:
    if record.expire_timestamp_ms != NEVER_EXPIRES_MS:
        return now_ms >= record.expire_timestamp_ms
    since_ms = record.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
    return now_ms - since_ms >= retention_ms
