"""Producer ids, handed out from blocks that the controller reserves."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.runtime.controller_channel import ControllerChannel

log = logging.getLogger(__name__)

TIMEOUT_MS = 5_000
PREFETCH_SHARE = 10
"""The next block is asked for when a tenth of this one is left: producers need not wait for it."""


class ProducerIds:
    """A block is committed before an id of it leaves the node, so no id is ever given twice, over restarts too."""

    def __init__(self, *, channel: ControllerChannel, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._low = 0
        """From this id on, the next block is asked for."""
        self._spare: tuple[int, int] | None = None
        self._is_asking = False
        self._waiting: deque[Deferred[int]] = deque()

    def next_id(self) -> Deferred[int]:
        waiting: Deferred[int] = Deferred()
        if self._next < self._end:
            waiting.complete(self._take())
        else:
            self._waiting.append(waiting)
        if self._next >= self._low and self._spare is None and not self._is_asking:
            self._ask()
        return waiting

    def _take(self) -> int:
        taken = self._next
        self._next += 1
        if self._next == self._end and self._spare is not None:
            (self._next, self._end), self._spare = self._spare, None
            self._low = self._end - (self._end - self._next) // PREFETCH_SHARE
        return taken

    def _ask(self) -> None:
        self._is_asking = True
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        self._channel.send(request, timeout_ms=TIMEOUT_MS).on_done(self._on_block)

    def _on_block(self, answer: Deferred[AllocateProducerIdsResponse]) -> None:
        self._is_asking = False
        block = answer.value
        code = answer.error.code if answer.error is not None else ErrorCode(block.error_code if block else -1)
        if block is None or code is not ErrorCode.NONE:
            self._refuse(code)
            return
        first, end = block.producer_id_start, block.producer_id_start + block.producer_id_len
        if self._next < self._end:
            self._spare = (first, end)
            return
        self._next, self._end = first, end
        self._low = end - block.producer_id_len // PREFETCH_SHARE
        while self._waiting and self._next < self._end:
            self._waiting.popleft().complete(self._take())
        if self._waiting:
            self._ask()

    def _refuse(self, code: ErrorCode) -> None:
        """Clients try again when they are told that the coordinator is loading; other codes end a producer."""
        log.info("no producer ids from the controller: %s", code.name)
        told = code if code is ErrorCode.KAFKA_STORAGE_ERROR else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            one.fail(BrokerError(told, f"no producer ids from the controller: {code.name}"))
