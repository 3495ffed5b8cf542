"""What this node carries, for gossip: rates since they were last asked for, and how many partitions it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.membership import Load

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.metadata.image import MetadataImage
    from ottla.ports import Clock
    from ottla.runtime.server import Traffic


class LoadMeter:
    def __init__(
        self,
        *,
        node_id: int,
        traffic: Callable[[], Traffic],
        image: Callable[[], MetadataImage],
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._traffic = traffic
        self._image = image
        self._clock = clock
        self._counted: MetadataImage | None = None
        self._partitions = self._leaders = 0
        self._before = traffic()
        self._before_ms = clock.monotonic_ms()
        self._rates = [0, 0, 0]

    def __call__(self) -> Load:
        now_ms = self._clock.monotonic_ms()
        passed_ms = now_ms - self._before_ms
        if passed_ms > 0:
            now = self._traffic()
            pairs = zip(self._before, now, strict=True)
            self._rates = [(after - before) * 1000 // passed_ms for before, after in pairs]
            self._before, self._before_ms = now, now_ms
        self._count(self._image())
        bytes_in, bytes_out, requests = self._rates
        return Load(bytes_in, bytes_out, requests, self._partitions, self._leaders)

    def _count(self, image: MetadataImage) -> None:
        """Over all partitions, so only when something has changed."""
        if image is self._counted:
            return
        self._counted = image
        me = self._node_id
        partitions = [partition for topic in image.topics.values() for partition in topic.partitions.values()]
        self._partitions = sum(me in partition.replicas for partition in partitions)
        self._leaders = sum(me == partition.leader for partition in partitions)
