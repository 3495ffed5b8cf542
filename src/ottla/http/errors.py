"""What an HTTP client is told when something is wrong: a status, a stable code, Kafka's name for it, and a sentence."""

from __future__ import annotations

from typing import Any

from ottla.errors import BrokerError, ErrorCode

BAD_REQUEST = 400
NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405
TIMED_OUT = 408
CONFLICT = 409
TOO_LARGE = 413
TOO_MANY = 429
SERVER_ERROR = 500
UNAVAILABLE = 503

_E = ErrorCode

_STATUSES: dict[ErrorCode, int] = {
    **dict.fromkeys(
        (_E.UNKNOWN_TOPIC_OR_PARTITION, _E.UNKNOWN_TOPIC_ID, _E.GROUP_ID_NOT_FOUND, _E.BROKER_ID_NOT_REGISTERED,
         _E.RESOURCE_NOT_FOUND, _E.UNKNOWN_MEMBER_ID), NOT_FOUND),
    **dict.fromkeys(
        (_E.TOPIC_ALREADY_EXISTS, _E.ILLEGAL_GENERATION, _E.REBALANCE_IN_PROGRESS, _E.FENCED_INSTANCE_ID,
         _E.NON_EMPTY_GROUP, _E.INCONSISTENT_GROUP_PROTOCOL, _E.REASSIGNMENT_IN_PROGRESS, _E.TOPIC_DELETION_DISABLED,
         _E.GROUP_SUBSCRIBED_TO_TOPIC, _E.OFFSET_OUT_OF_RANGE, _E.UNSTABLE_OFFSET_COMMIT, _E.DUPLICATE_RESOURCE),
        CONFLICT),
    **dict.fromkeys((_E.MESSAGE_TOO_LARGE, _E.RECORD_LIST_TOO_LARGE), TOO_LARGE),
    **dict.fromkeys((_E.THROTTLING_QUOTA_EXCEEDED, _E.GROUP_MAX_SIZE_REACHED), TOO_MANY),
    **dict.fromkeys(
        (_E.LEADER_NOT_AVAILABLE, _E.NOT_LEADER_OR_FOLLOWER, _E.REQUEST_TIMED_OUT, _E.BROKER_NOT_AVAILABLE,
         _E.REPLICA_NOT_AVAILABLE, _E.NETWORK_EXCEPTION, _E.COORDINATOR_LOAD_IN_PROGRESS, _E.COORDINATOR_NOT_AVAILABLE,
         _E.NOT_COORDINATOR, _E.NOT_ENOUGH_REPLICAS, _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, _E.NOT_CONTROLLER,
         _E.KAFKA_STORAGE_ERROR, _E.OFFSET_NOT_AVAILABLE, _E.FENCED_LEADER_EPOCH, _E.UNKNOWN_LEADER_EPOCH,
         _E.PREFERRED_LEADER_NOT_AVAILABLE, _E.ELIGIBLE_LEADERS_NOT_AVAILABLE), UNAVAILABLE),
    _E.UNKNOWN_SERVER_ERROR: SERVER_ERROR,
}  # fmt: skip
"""Everything else is the caller's mistake: 400."""

_SENTENCES: dict[ErrorCode, str] = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: "There is no such topic or partition.",
    _E.OFFSET_OUT_OF_RANGE: "The log does not hold this offset: it is beyond its end, or was deleted by retention.",
    _E.LEADER_NOT_AVAILABLE: "The partition has no leader at the moment.",
    _E.NOT_LEADER_OR_FOLLOWER: "The partition's leader is changing.",
    _E.REQUEST_TIMED_OUT: "The cluster did not answer in time.",
    _E.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than the topic's min.insync.replicas asks for.",
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "It was written, but fewer replicas are in sync than the topic asks for.",
    _E.MESSAGE_TOO_LARGE: "The messages are larger than the topic's max.message.bytes.",
    _E.TOPIC_ALREADY_EXISTS: "The topic exists already.",
    _E.COORDINATOR_NOT_AVAILABLE: "The group has no coordinator at the moment.",
    _E.COORDINATOR_LOAD_IN_PROGRESS: "The group's coordinator is still reading what it needs to know.",
    _E.NOT_COORDINATOR: "The group's coordinator is changing.",
    _E.NOT_CONTROLLER: "The cluster has no controller at the moment.",
    _E.REBALANCE_IN_PROGRESS: "The group is giving out its partitions anew.",
    _E.UNKNOWN_MEMBER_ID: "The group does not know this consumer, or no longer: register it.",
    _E.ILLEGAL_GENERATION: "The group has moved on without this consumer: register it again.",
    _E.FENCED_INSTANCE_ID: "Another consumer has registered under this consumer_id.",
    _E.GROUP_ID_NOT_FOUND: "There is no such group.",
    _E.KAFKA_STORAGE_ERROR: "The disk of the partition's leader does not take writes.",
    _E.INVALID_TOPIC_EXCEPTION: "A topic's name has up to 249 letters, digits, dots, underscores and dashes.",
    _E.UNKNOWN_SERVER_ERROR: "Something went wrong in the server; its log says what.",
}


class HttpError(Exception):
    """An answer that is not what was asked for."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        kafka_error: str | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.kafka_error = kafka_error
        self.more = more or {}

    def body(self) -> dict[str, Any]:
        error = {"code": self.code, "kafka_error": self.kafka_error, "message": self.message, **self.more}
        return {"error": error}


def bad_request(message: str) -> HttpError:
    return HttpError(BAD_REQUEST, "bad_request", message)


def of_broker(error: BrokerError, **more: Any) -> HttpError:
    return of_code(error.code, error.message, **more)


def of_code(code: int, message: str | None = None, **more: Any) -> HttpError:
    """As a broker answered: `code` may be one that we have no name for."""
    if code not in ErrorCode._value2member_map_:
        return HttpError(SERVER_ERROR, f"kafka_{code}", message or f"The broker answered with error {code}.", more=more)
    known = ErrorCode(code)
    sentence = _sentence(message) or _SENTENCES.get(known) or f"The broker answered with {known.name}."
    status = _STATUSES.get(known, BAD_REQUEST)
    return HttpError(status, known.name.lower(), sentence, kafka_error=known.name, more=more)


def _sentence(message: str | None) -> str:
    """Brokers begin small and end without a stop."""
    if not message:
        return ""
    return message[0].upper() + message[1:] + ("" if message.endswith(".") else ".")


def require(code: int, message: str | None = None) -> None:
    """Raise what an error code says, if it says anything."""
    if code:
        raise of_code(code, message)
