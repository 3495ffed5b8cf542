"""Fetch, the short way: of a follower that reads one partition of a session that is known (see `protocol.one_fetch`),
and of a consumer that asks for what it asked for before, from other offsets (see `protocol.known_fetch`).

A consumer's request is learnt when it came the long way and found nothing to read: at the tail the same ones come back
in no time, while one who is behind may ask for other partitions every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError
from ottla.handlers.registry import NOT_TAKEN, short_way
from ottla.protocol.known_fetch import BODY_BYTES_MIN, LOG_START_OFFSET_FROM, KnownFetch, beginning, is_plain, know
from ottla.protocol.messages.fetch import BY_TOPIC_ID_FROM, READ_COMMITTED, FetchRequest
from ottla.protocol.one_fetch import VERSION, read_request

if TYPE_CHECKING:
    from ottla.ports import Bytes
    from ottla.services import Partitions, RequestContext

ALIKE_MAX = 8
"""Requests that are remembered of those that begin alike and are of the same size."""
MEMORY_BYTES_MAX = 32 * 1024 * 1024
"""What is remembered of one version. All is forgotten when there is more..."""
KEPT_MS_MIN = 60_000
"""...but not more often than this, for learning costs more than it saves if it is in vain."""


class ShortFetch:
    """For one version."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._known: dict[tuple[int, bytes], list[KnownFetch]] = {}
        self._memory_bytes = 0
        self._since_ms = 0

    def serve(self, frame: Bytes, at: int, ctx: RequestContext) -> Any:
        services, version, size = ctx.services, self._version, len(frame) - at
        if version == VERSION:
            asked = read_request(frame, at)
            if asked is not None:
                of_follower = services.replica_fetches.fetch_one(asked)
                return NOT_TAKEN if of_follower is None else of_follower
        if size < BODY_BYTES_MIN or services.quotas.active:
            return NOT_TAKEN
        for known in self._known.get((size, beginning(frame, at, version)), ()):
            offsets = known.offsets(frame, at)
            if offsets is not None:
                answer = services.fetcher.fetch_again(known, offsets)
                return NOT_TAKEN if answer is None else answer
        return NOT_TAKEN

    def learn(self, request: FetchRequest, frame: Bytes, at: int, ctx: RequestContext) -> None:
        if not is_plain(request) or not self._is_at_tail(request, ctx.services.partitions):
            return
        if self._memory_bytes > MEMORY_BYTES_MAX:
            if ctx.now_ms - self._since_ms < KEPT_MS_MIN:
                return
            self._known.clear()
            self._memory_bytes = 0
        known = know(request, self._version, frame[at:])
        if known is None:
            return
        if not self._known:
            self._since_ms = ctx.now_ms
        self._memory_bytes += known.memory_bytes
        alike = self._known.setdefault((len(frame) - at, beginning(frame, at, self._version)), [])
        if len(alike) == ALIKE_MAX:
            self._memory_bytes -= alike.pop(0).memory_bytes
        alike.append(known)

    def _is_at_tail(self, request: FetchRequest, partitions: Partitions) -> bool:
        is_by_id, reads_committed = self._version >= BY_TOPIC_ID_FROM, request.isolation_level == READ_COMMITTED
        try:
            for topic in request.topics:
                for asked in topic.partitions:
                    if is_by_id:
                        partition = partitions.get_by_id(topic.topic_id, asked.partition)
                    else:
                        partition = partitions.get(topic.topic, asked.partition)
                    end = partition.last_stable_offset if reads_committed else partition.high_watermark
                    if asked.fetch_offset < end:
                        return False
        except BrokerError:
            return False
        return True


@short_way(FetchRequest)
def short_fetch(version: int) -> ShortFetch | None:
    return ShortFetch(version) if version >= LOG_START_OFFSET_FROM else None
