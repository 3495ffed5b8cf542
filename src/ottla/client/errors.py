"""What a program that uses the client has to expect.

OttlaError
└── ClientError                 everything below: `.code` is Kafka's error code where a broker gave one
    ├── UnreachableError        no broker answered at the addresses given
    ├── TimedOutError           an answer did not come in time (also a TimeoutError)
    ├── RefusedError            a broker answered with an error
    │   ├── TopicNotFoundError, TopicExistsError, TopicInvalidError
    │   ├── GroupNotFoundError, GroupNotEmptyError
    │   ├── NotAuthorizedError
    │   └── OffsetOutOfRangeError
    ├── BatchError              some of several operations failed; `.errors` says which and why
    ├── BufferFullError         the send buffer stayed full for `max_block_ms`: the record was not taken
    ├── DeliveryError           a record was not acknowledged; its future raises this
    ├── UndeliveredError        flush or close: records failed, or are still waiting, and nobody has been told
    ├── CommitFailedError       the group has moved on: the partitions belong to others now
    ├── TransactionError        a transaction can't be begun, or can't be ended by this producer
    │   ├── TransactionAbortedError     nothing of it is visible: do it again from its beginning
    │   └── ProducerFencedError         another producer with the same transactional id has taken over
    ├── SerializationError      a value could not be turned into bytes
    ├── DeserializationError    bytes could not be turned into a value; tells where they are
    ├── ClosedError             the client was closed
    └── QueueError              a queue's directory or cluster can't be used
        └── QueueUnavailableError   nobody serves the queue, and it could not be taken over in time
"""

from collections.abc import Mapping

from ottla.errors import ErrorCode, OttlaError


class ClientError(OttlaError):
    """The root of what the client raises."""

    def __init__(self, message: str, *, code: ErrorCode | None = None, retriable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        """Kafka's error code, if a broker sent one."""
        self.retriable = retriable
        """Whether the same call may succeed later."""


class UnreachableError(ClientError):
    """No broker answered at the addresses given."""


class TimedOutError(ClientError, TimeoutError):
    """An answer did not come in time."""


class RefusedError(ClientError):
    """A broker answered with an error code."""


class TopicNotFoundError(RefusedError):
    """There is no such topic or partition."""


class TopicExistsError(RefusedError):
    """There is a topic of that name."""


class TopicInvalidError(RefusedError):
    """The topic's name, partition count, replication factor or a config is not allowed."""


class GroupNotFoundError(RefusedError):
    """There is no such consumer group."""


class GroupNotEmptyError(RefusedError):
    """The group has members, so it can't be deleted nor can its offsets be set."""


class NotAuthorizedError(RefusedError):
    """The broker does not let this client do that."""


class OffsetOutOfRangeError(RefusedError):
    """The partition does not hold that offset (any more, or yet), and no reset policy is set."""


class BatchError(ClientError):
    """Some of several operations failed. Those that are not in `errors` were done."""

    def __init__(self, errors: Mapping[str, ClientError]) -> None:
        super().__init__("; ".join(f"{name}: {error}" for name, error in errors.items()))
        self.errors = dict(errors)


class BufferFullError(ClientError):
    """The send buffer stayed full for `max_block_ms`. The record was not taken, so it is safe to send it again."""


class DeliveryError(ClientError):
    """A record was not acknowledged within `delivery_timeout_ms`, or the broker refused it for good."""


class UndeliveredError(ClientError):
    """Records failed, or are still waiting, and nobody has looked at their futures."""

    def __init__(self, message: str, *, failed: int, waiting: int) -> None:
        super().__init__(message)
        self.failed = failed
        self.waiting = waiting


class CommitFailedError(ClientError):
    """The offsets were not stored: the group has rebalanced, and the partitions may belong to others now."""


class TransactionError(ClientError):
    """A transaction can't be begun, or this producer can't end it. Close the producer and make a new one."""


class TransactionAbortedError(TransactionError):
    """The transaction was aborted: nothing of it is visible, and it may be done again from its beginning."""


class ProducerFencedError(TransactionError):
    """Another producer with the same transactional id has taken over. Nothing of this one will be visible any more."""


class SerializationError(ClientError):
    """A key or value could not be turned into bytes. The record was not sent."""


class DeserializationError(ClientError):
    """The bytes of a record could not be turned into a value. The record stays where it is."""

    def __init__(self, message: str, *, topic: str, partition: int, offset: int, raw: bytes | None) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.raw = raw


class ClosedError(ClientError):
    """The client was closed; make a new one."""


class QueueError(ClientError):
    """A queue's directory or cluster can't be used."""


class QueueUnavailableError(QueueError):
    """Nobody serves the queue, and it could not be taken over in time."""


BY_CODE: Mapping[ErrorCode, type[ClientError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: TopicNotFoundError,
    ErrorCode.UNKNOWN_TOPIC_ID: TopicNotFoundError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.INVALID_TOPIC_EXCEPTION: TopicInvalidError,
    ErrorCode.INVALID_PARTITIONS: TopicInvalidError,
    ErrorCode.INVALID_REPLICATION_FACTOR: TopicInvalidError,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: TopicInvalidError,
    ErrorCode.INVALID_CONFIG: TopicInvalidError,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupNotFoundError,
    ErrorCode.NON_EMPTY_GROUP: GroupNotEmptyError,
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.REQUEST_TIMED_OUT: TimedOutError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: NotAuthorizedError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: NotAuthorizedError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: NotAuthorizedError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NotAuthorizedError,
    ErrorCode.ILLEGAL_GENERATION: CommitFailedError,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitFailedError,
    ErrorCode.REBALANCE_IN_PROGRESS: CommitFailedError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFencedError,
    ErrorCode.FENCED_INSTANCE_ID: CommitFailedError,
    ErrorCode.FENCED_MEMBER_EPOCH: CommitFailedError,
    ErrorCode.STALE_MEMBER_EPOCH: CommitFailedError,
}
"""The exception for a broker's error code; RefusedError for all others."""
