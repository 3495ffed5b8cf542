"""Topics that come to be because somebody needs them: by first use, and those that the cluster keeps for itself.

The controller creates them. What is asked for by many at once is asked of it once, and everybody is answered when this
node's own image has the topic, since that is where they look next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.services import AUTOMATIC, Deferred, gather

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.runtime.controller_channel import ControllerChannel
    from ottla.runtime.timers import Timers

BROKER_DEFAULT = -1
TIMEOUT_MS = 10_000
IMAGE_MS_MAX = 5_000
"""How long it may take until this node hears of what the controller has done."""
IS_THERE = frozenset({int(ErrorCode.NONE), int(ErrorCode.TOPIC_ALREADY_EXISTS)})


class NewTopics:
    def __init__(self, *, channel: ControllerChannel, image: Callable[[], MetadataImage], timers: Timers) -> None:
        self._channel = channel
        self._image = image
        self._timers = timers
        self._waiting: dict[str, list[Deferred[int]]] = {}

    def ensure(self, names: Sequence[str]) -> Deferred[Mapping[str, int]]:
        """Done when this node knows the topics; for each of them an error code, or 0."""
        wanted = list(dict.fromkeys(names))
        new = [name for name in wanted if name not in self._waiting and name not in self._image().topics]
        parts = [self._when_there(name) for name in wanted]
        if new:
            self._ask(new)
        return gather(parts, lambda codes: {name: _code(code) for name, code in zip(wanted, codes, strict=True)})

    def _when_there(self, name: str) -> Deferred[int]:
        there: Deferred[int] = Deferred()
        if name in self._image().topics:
            there.complete(0)
        else:
            self._waiting.setdefault(name, []).append(there)
        return there

    def _ask(self, names: Sequence[str]) -> None:
        topics = [
            CreatableTopic(name=name, num_partitions=BROKER_DEFAULT, replication_factor=BROKER_DEFAULT)
            for name in names
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
        created = self._channel.send(request, timeout_ms=TIMEOUT_MS, client_id=AUTOMATIC)
        created.on_done(lambda done: self._answered(names, done))

    def _answered(self, names: Sequence[str], done: Deferred[CreateTopicsResponse]) -> None:
        told = {} if done.value is None else {topic.name: topic.error_code for topic in done.value.topics}
        failed = done.error.code if done.error is not None else ErrorCode.UNKNOWN_SERVER_ERROR
        for name in names:
            code = told.get(name, int(failed))
            if code not in IS_THERE or name in self._image().topics:
                self._tell(name, 0 if code in IS_THERE else code)
            elif name in self._waiting:
                self._wait_for_image(name, self._waiting[name])

    def _wait_for_image(self, name: str, waiting: list[Deferred[int]]) -> None:
        def give_up() -> None:
            if self._waiting.get(name) is waiting:
                self._tell(name, ErrorCode.LEADER_NOT_AVAILABLE)

        self._timers.after_ms(IMAGE_MS_MAX, give_up)

    def image_changed(self) -> None:
        topics = self._image().topics
        for name in [name for name in self._waiting if name in topics]:
            self._tell(name, 0)

    def _tell(self, name: str, code: int) -> None:
        for waiting in self._waiting.pop(name, ()):
            waiting.complete(code)


def _code(part: int | BrokerError) -> int:
    return part if isinstance(part, int) else int(part.code)
