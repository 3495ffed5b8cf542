"""Fetch: records from an offset on, at once or as soon as there are enough."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.errors import BrokerError
from ottla.handlers.registry import handles
from ottla.ports import Clock
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.services import Deferred, Quotas, RequestContext


@handles(FetchRequest)
def fetch(request: FetchRequest, ctx: RequestContext) -> FetchResponse | Deferred[FetchResponse]:
    services = ctx.services
    replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    try:
        if replica_id >= 0:
            return services.replica_fetches.fetch(request, replica_id, replica_epoch)
        answer = services.fetcher.fetch(request, ctx.api_version, ctx.now_ms, is_sent=ctx.is_sent)
    except BrokerError as error:
        return FetchResponse(error_code=error.code)
    if not services.quotas.active:
        return answer
    charge = Charge(services.quotas, ctx.principal, ctx.client_id, services.clock)
    return answer.then(charge.response) if isinstance(answer, Deferred) else charge.response(answer)


@dataclass(frozen=True, slots=True)
class Charge:
    """Counts what a reader is given against its quota; over it, the answer says how long the reader is held."""

    quotas: Quotas
    principal: str
    client_id: str | None
    clock: Clock

    def response(self, answer: FetchResponse) -> FetchResponse:
        size_bytes = sum(len(p.records or b"") for topic in answer.responses for p in topic.partitions)
        throttle_ms = self.quotas.fetched(self.principal, self.client_id, size_bytes, self.clock.now_ms())
        if throttle_ms == 0:
            return answer
        return FetchResponse(session_id=answer.session_id, responses=answer.responses, throttle_time_ms=throttle_ms)
