"""FindCoordinator: which node looks after a group or a transactional id: the leader of the partition it is kept in."""

from __future__ import annotations

from collections.abc import Callable

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.metadata.image import MetadataImage
from ottla.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.services import Deferred, RequestContext, Services

GROUP = 0
TRANSACTION = 1
MANY_KEYS_FROM = 4


@handles(FindCoordinatorRequest)
def find_coordinator(
    request: FindCoordinatorRequest, ctx: RequestContext
) -> FindCoordinatorResponse | Deferred[FindCoordinatorResponse]:
    many = ctx.api_version >= MANY_KEYS_FROM
    keys = request.coordinator_keys if many else [request.key]
    if request.key_type not in (GROUP, TRANSACTION):
        error = BrokerError(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {request.key_type}")
        return _response([_refused(key, error) for key in keys], many=many)
    find, ensure_topic = _finder(request.key_type, ctx.services)
    answer: Deferred[FindCoordinatorResponse] = Deferred()

    def ensured(done: Deferred[None]) -> None:
        found = [_refused(key, done.error) if done.error is not None else find(key) for key in keys]
        answer.complete(_response(found, many=many))

    ensure_topic().on_done(ensured)
    return answer


def _finder(key_type: int, services: Services) -> tuple[Callable[[str], Coordinator], Callable[[], Deferred[None]]]:
    if key_type == GROUP:
        groups = services.groups
        return lambda key: _leader(services, CONSUMER_OFFSETS, groups.partition_of, key), groups.ensure_topic
    transactions = services.transactions
    return lambda key: _leader(services, TRANSACTION_STATE, transactions.partition_of, key), transactions.ensure_topic


def _leader(services: Services, topic: str, partition_of: Callable[[str], int], key: str) -> Coordinator:
    try:
        return _at(services.image, topic, partition_of(key), key)
    except BrokerError as error:
        return _refused(key, error)


def _at(image: MetadataImage, topic: str, index: int, key: str) -> Coordinator:
    registration = image.partition(topic, index)
    broker = None if registration is None else image.brokers.get(registration.leader)
    if broker is None or broker.fenced:
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    endpoint = broker.endpoints[0]
    return Coordinator(key=key, node_id=broker.broker_id, host=endpoint.host, port=endpoint.port)


def _refused(key: str, error: BrokerError) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message)


def _response(coordinators: list[Coordinator], *, many: bool) -> FindCoordinatorResponse:
    if many:
        return FindCoordinatorResponse(coordinators=coordinators)
    only = coordinators[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
