"""Producer ids, handed out from blocks that the controller reserves."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.errors import BrokerError
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.metadata.producer_ids import ProducerIdBlock
    from ottla.runtime.metadata import Metadata


class ProducerIds:
    """A block is durable before an id of it leaves the node, so no id is ever given twice, over restarts too."""

    def __init__(self, metadata: Metadata, broker_id: int) -> None:
        self._metadata = metadata
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._waiting: deque[Deferred[int]] = deque()

    def next_id(self) -> Deferred[int]:
        waiting: Deferred[int] = Deferred()
        if self._next < self._end and not self._waiting:
            waiting.complete(self._take())
            return waiting
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            self._ask()
        return waiting

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def _ask(self) -> None:
        try:
            block = self._metadata.call(
                lambda controller, _token, now_ms: controller.allocate_producer_ids(self._broker_id)
            )
        except BrokerError as error:
            self._refuse(error)
        else:
            block.on_done(self._on_block)

    def _on_block(self, answer: Deferred[ProducerIdBlock]) -> None:
        if answer.error is not None:
            self._refuse(answer.error)
            return
        block = answer.value
        assert block is not None
        self._next, self._end = block.first, block.first + block.size
        while self._waiting and self._next < self._end:
            self._waiting.popleft().complete(self._take())
        if self._waiting:
            self._ask()

    def _refuse(self, error: BrokerError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            one.fail(error)
