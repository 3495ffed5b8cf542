"""Fetch of a follower, the short way: one partition of a session that is known (see `protocol.one_fetch`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.handlers.registry import NOT_TAKEN, short_way
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.one_fetch import VERSION, read_request

if TYPE_CHECKING:
    from ottla.services import RequestContext


class ShortFetch:
    def serve(self, frame: memoryview, at: int, ctx: RequestContext) -> Any:
        asked = read_request(frame, at)
        answer = None if asked is None else ctx.services.replica_fetches.fetch_one(asked)
        return NOT_TAKEN if answer is None else answer

    def learn(self, request: FetchRequest, frame: memoryview, at: int, ctx: RequestContext) -> None:
        """There is nothing to know of a request but what stands in it."""


@short_way(FetchRequest)
def short_fetch(version: int) -> ShortFetch | None:
    return ShortFetch() if version == VERSION else None
