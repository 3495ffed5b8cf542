"""What a handler may call: the request's context, the node's services behind it, and answers that come later.

Handlers see the node only through the protocols in here. The runtime implements them; a test may implement just the one
that its handler uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.replicated import Result, Token
from ottla.values import value

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.groups.shard import GroupShard
    from ottla.metadata.controller import Controller
    from ottla.metadata.image import MetadataImage
    from ottla.observability.metrics import Refusals
    from ottla.ports import Bytes, Clock
    from ottla.protocol.known_fetch import KnownFetch
    from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
    from ottla.protocol.schema import Request
    from ottla.replication.partition import Partition
    from ottla.storage.log import Origin
    from ottla.transactions.markers import Marker
    from ottla.transactions.shard import TransactionShard
    from ottla.transactions.transaction import Producer
    from ottla.types import TopicId, TopicPartition

T = TypeVar("T")
U = TypeVar("U")

FORWARDED = "ottla-forwarded"
"""The client id of a request that another node has sent on."""
AUTOMATIC = "ottla-automatic"
"""The same, of a node that needs a topic nobody has asked for as such."""
WITH_COMMIT: Final = object()
"""Instead of an answer: the one who asked will be told of it by the commit."""


class Deferred(Token, Generic[T]):
    """An answer that is not there yet. Completed exactly once, with a value or with an error.

    Not a future: no loop, no task, no scheduling. The listener runs inside `complete`, which is what lets one commit
    answer hundreds of requests without a trip through the event loop for each.
    """

    __slots__ = ("_listener", "done", "error", "on_abandon", "place", "value")

    def __init__(self) -> None:
        self.done = False
        self.on_abandon: Callable[[], None] | None = None
        """Called when nobody waits for the answer any more, by whoever holds things for it."""
        self.place: Any = None
        """Whoever waits may note here what the answer is for."""
        self.value: T | None = None
        self.error: BrokerError | None = None
        self._listener: Callable[[Deferred[T]], None] | None = None

    def complete(self, value: T) -> None:
        self.value = value
        self.done = True
        self.on_abandon = None  # whoever holds things for the answer is held by it no longer: large answers go at once
        listener = self._listener
        if listener is not None:
            self._listener = None
            listener(self)

    def fail(self, error: BrokerError) -> None:
        self.error = error
        self.done = True
        self.on_abandon = None
        listener = self._listener
        if listener is not None:
            self._listener = None
            listener(self)

    def on_done(self, listener: Callable[[Deferred[T]], None]) -> None:
        """Call `listener` when the answer is there: at once if it is. There is one listener only."""
        if self.done:
            listener(self)
        else:
            self._listener = listener

    def abandon(self) -> None:
        """The one who asked has gone away."""
        self._listener = None
        if self.on_abandon is not None and not self.done:
            self.on_abandon()

    def then(self, change: Callable[[T], U]) -> Deferred[U]:
        """The same answer, changed by `change`; an error passes through."""
        changed: Deferred[U] = Deferred()

        def forward(source: Deferred[T]) -> None:
            if source.error is not None:
                changed.fail(source.error)
            else:
                changed.complete(change(source.value))  # type: ignore[arg-type]  # no error, so there is a value

        self.on_done(forward)
        return changed


def gather(parts: Sequence[Deferred[T]], combine: Callable[[Sequence[T | BrokerError]], U]) -> Deferred[U]:
    """One answer out of many: `combine` gets each part's value, or its error, once all are there."""
    whole: Deferred[U] = Deferred()
    waiting = len(parts)

    def one_done(_: Deferred[T]) -> None:
        nonlocal waiting
        waiting -= 1
        if waiting <= 0:
            whole.complete(combine([part.error or part.value for part in parts]))  # type: ignore[misc]  # all are done

    if not parts:
        whole.complete(combine([]))
    for part in parts:
        part.on_done(one_done)
    return whole


class Receiver(Protocol):
    """Who is sent an answer that is encoded already, with its header; nothing has to be looked up for it any more."""

    def complete(self, value: bytes) -> None: ...

    def complete_several(self, values: list[bytes]) -> None:
        """The same of several, one after the other."""


class Again:
    """How to serve a connection's requests that begin as its last one did, without looking at their beginning."""

    __slots__ = ("api", "end", "serve", "start")

    def __init__(self, api: int, start: bytes, end: int, serve: Callable[..., Any]) -> None:
        self.api = api
        """API key << 16 | version."""
        self.start = start
        """What stands in the frame from the client id on..."""
        self.end = end
        """...to here."""
        self.serve = serve
        """Given the frame, `end`, the context, a receiver or None, and the correlation id. As a short way; where there
        is a receiver the answer may be WITH_COMMIT."""


class Groups(Protocol):
    """The consumer groups that this node coordinates."""

    def call(self, group_id: str, decide: Callable[[GroupShard, Token, int], Result[Any, T]]) -> Deferred[T]:
        """Let the group's shard decide, make its records durable, then answer.

        `decide` gets the shard, a token for the caller and the time in ms. Raises BrokerError if this node does not
        coordinate the group, or is still loading it.
        """

    def shards(self) -> Iterable[GroupShard]:
        """The shards that this node coordinates and has loaded: for answers about all groups."""

    def partition_of(self, group_id: str) -> int:
        """Which partition of `__consumer_offsets` a group belongs to."""

    def require_here(self, group_id: str) -> None:
        """Raises BrokerError where this node does not coordinate the group, or not yet."""

    def ensure_topic(self) -> Deferred[None]:
        """Done once `__consumer_offsets` exists: it is created by the first who asks for a coordinator."""


class Transactions(Protocol):
    """The transactions that this node coordinates, and its partitions' part in those of others."""

    def call(
        self, transactional_id: str, decide: Callable[[TransactionShard, Token, int], Result[Any, T]]
    ) -> Deferred[T]:
        """As `Groups.call`, for a transactional id."""

    def call_with_id(
        self, transactional_id: str, decide: Callable[[TransactionShard, Token, int, int | None], Result[Any, Any]]
    ) -> Deferred[Any]:
        """The same for decisions that may need a new producer id, which is then the last argument."""

    def shards(self) -> Iterable[TransactionShard]: ...

    def ensure_topic(self) -> Deferred[None]: ...

    def partition_of(self, transactional_id: str) -> int:
        """Which partition of `__transaction_state` an id belongs to."""

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """Where the offsets of a group are kept."""

    def join(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], *, adds: bool
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        """Ask the coordinator whether the producer may write to these partitions; `adds`: they become part of its
        transaction by that. Without an error the records must be appended at once, in the turn of the answer.
        """

    def write_marker(self, at: TopicPartition, marker: Marker) -> Deferred[ErrorCode]:
        """End a producer's transaction in a partition that is led here."""


class ControllerService(Protocol):
    """The cluster's metadata, where it is changed."""

    def call(self, decide: Callable[[Controller, Token, int], Result[Any, T]]) -> Deferred[T]:
        """Let the controller decide, make its records durable and visible in the image, then answer."""


class ControllerChannel(Protocol):
    """The way to the active controller, wherever it is."""

    def send(
        self, request: Request, *, timeout_ms: int, version: int | None = None, client_id: str = FORWARDED
    ) -> Deferred[Any]:
        """Its answer. Fails with REQUEST_TIMED_OUT if no controller has answered by then."""


class NewTopics(Protocol):
    """Topics that come to be because somebody needs them."""

    def ensure(self, names: Sequence[str]) -> Deferred[Mapping[str, int]]:
        """Done when this node knows the topics; for each of them an error code, or 0."""


class Vanished(Protocol):
    """Brokers whose connections have just ended."""

    def settled(self) -> Deferred[None] | None:
        """Done when it is known what becomes of all that have vanished; None if there is nobody who could."""

    def is_listed(self, broker_id: int) -> bool:
        """Whether a broker that is out of service should be named all the same."""


class Partitions(Protocol):
    """The partitions that this node leads."""

    @property
    def has_followers(self) -> bool:
        """Whether any of them is copied by other nodes."""

    def led_in(self, topic: str | TopicId) -> Mapping[int, Partition]:
        """Those of a topic that are led here and were used, by index: as they are now, and as they change later. None
        any more when the topic is deleted, even if there is one of that name again."""

    def get(self, topic: str, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER if it is led elsewhere."""

    def get_by_id(self, topic_id: TopicId, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_ID too."""

    def turn_away(self, topic: str | TopicId, index: int, records: Bytes, code: ErrorCode) -> None:
        """A batch is refused since its partition could not be looked up: those behind it are to wait for it."""


class Commits(Protocol):
    """Changes to logs, and answers that wait for them to be durable."""

    @property
    def replies(self) -> list[tuple[Receiver, bytes, Callable[[bytes, BrokerError], bytes]]]:
        """Who is sent what as soon as the next commit has succeeded, and what to send if it fails: in this order, and
        before all other answers. To be added to in the turn in which something was appended."""

    def append(self, partition: Partition, records: Bytes, now_ms: int, origin: Origin) -> int:
        """The base offset that the batch was given."""

    def delete_records_before(self, partition: Partition, offset: int) -> int:
        """The log start offset after it."""

    def after_commit(self, answer: T, on_failure: Callable[[T, BrokerError], T] | None = None) -> Deferred[T]:
        """`answer`, once everything changed so far is durable; `on_failure` makes the answer if that fails."""


class Fetches(Protocol):
    def fetch(
        self, request: FetchRequest, api_version: int, now_ms: int, *, is_sent: bool = False
    ) -> FetchResponse | Deferred[FetchResponse]:
        """Records, now or later. Raises BrokerError for a fetch session that is not known.

        If `is_sent`, nobody looks at the records in the answer: they are only sent.
        """

    def fetch_again(self, known: KnownFetch, offsets: Sequence[int]) -> Deferred[Any] | FetchResponse | bytes | None:
        """The same for a request that is known but for its offsets; the answer may be encoded. None: it has to go the
        long way, and nothing was changed by it."""


class ReplicaFetches(Protocol):
    """Followers, served by the leader of their partitions."""

    def fetch(self, request: FetchRequest, replica_id: int, replica_epoch: int) -> Deferred[FetchResponse]:
        """What is new, now or later. Raises BrokerError for a fetch session that is not known."""

    def fetch_one(self, asked: tuple[Any, ...]) -> Deferred[Any] | None:
        """The same for a request as `protocol.one_fetch` reads it; the answer may be encoded. None: it has to go the
        long way, and nothing was changed by it."""


class Acks(Protocol):
    """Answers that wait until what was appended is on the disks of all in-sync replicas."""

    def when_committed(
        self,
        answer: T,
        waits: Sequence[tuple[Partition, int, U]],
        refuse: Callable[[U, BrokerError], None],
        timeout_ms: int,
    ) -> Deferred[T]:
        """`answer`, once each of `waits` (a partition, an offset, what is said of it) is committed or was refused."""

    def when_one_committed(
        self,
        answer: T,
        partition: Partition,
        offset: int,
        on_failure: Callable[[T, BrokerError], Any],
        timeout_ms: int,
    ) -> Deferred[Any]:
        """`answer`, once everything of the partition below `offset` is committed; or what `on_failure` makes of it."""


class Quotas(Protocol):
    """Bytes per second. Each call counts, and says for how many ms the client is to be held back."""

    @property
    def active(self) -> bool:
        """Whether any quota is set at all."""

    def produced(self, principal: str, client_id: str | None, size_bytes: int, now_ms: int) -> int: ...

    def fetched(self, principal: str, client_id: str | None, size_bytes: int, now_ms: int) -> int: ...


class ProducerIds(Protocol):
    def next_id(self) -> Deferred[int]:
        """A producer id that nobody has had before."""


@value
class QuorumReplica:
    """A node of the metadata quorum, as its leader knows it. Times are of the calendar; -1: never."""

    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@value
class QuorumView:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[QuorumReplica]
    observers: Sequence[QuorumReplica]


class QuorumService(Protocol):
    """The metadata quorum, on its leader."""

    def describe(self) -> QuorumView:
        """Raises NOT_LEADER_OR_FOLLOWER."""

    def add_voter(self, node_id: int, directory_id: bytes, *, timeout_ms: int) -> Deferred[None]:
        """Done when the change is committed. Raises, or answers with, what keeps the node from being a voter."""

    def remove_voter(self, node_id: int, directory_id: bytes) -> Deferred[None]: ...


class LogDirs(Protocol):
    """What lies on this node's disk."""

    @property
    def path(self) -> str: ...

    def total_bytes(self) -> int: ...

    def usable_bytes(self) -> int: ...

    def size_bytes(self, topic: str, index: int) -> int:
        """0 for a partition that nothing was ever written to."""


class Room(Protocol):
    """Whether the disk can take clients' records."""

    is_full: bool
    """As of the last look."""

    def look(self) -> bool:
        """Whether it is full now. A system call: for those who would be refused."""


class Services(Protocol):
    """A node, as handlers see it."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def controller_id(self) -> int:
        """The node that changes the metadata, or -1 while there is none."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that this node has applied."""

    @property
    def groups(self) -> Groups: ...

    @property
    def transactions(self) -> Transactions: ...

    @property
    def controller(self) -> ControllerService: ...

    @property
    def is_controller(self) -> bool:
        """Whether this node is the one that changes the metadata."""

    @property
    def controller_channel(self) -> ControllerChannel: ...

    @property
    def new_topics(self) -> NewTopics: ...

    @property
    def vanished(self) -> Vanished: ...

    @property
    def partitions(self) -> Partitions: ...

    @property
    def committer(self) -> Commits: ...

    @property
    def fetcher(self) -> Fetches: ...

    @property
    def replica_fetches(self) -> ReplicaFetches: ...

    @property
    def acks(self) -> Acks: ...

    @property
    def quotas(self) -> Quotas: ...

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def quorum(self) -> QuorumService: ...

    @property
    def log_dirs(self) -> LogDirs: ...

    @property
    def room(self) -> Room: ...

    @property
    def refusals(self) -> Refusals:
        """For metrics: what is said inside of an answer that is none as a whole."""


class RequestContext:
    """Who asks, and through what. One per connection; its fields are valid while the handler runs, no longer."""

    __slots__ = ("again", "api_version", "client_host", "client_id", "is_sent", "now_ms", "principal", "services")

    def __init__(self, services: Services, client_host: str, *, is_sent: bool = False) -> None:
        self.services = services
        self.client_host = client_host
        self.client_id: str | None = None
        self.principal = "User:ANONYMOUS"
        self.is_sent = is_sent
        """Whether answers are sent, and not looked at in this process."""
        self.api_version = 0
        self.now_ms = 0
        self.again: Again | None = None
        """Set by a short way that has served such a request; taken back when the client goes by another name."""

    def copy(self) -> RequestContext:
        """For a handler that goes on when this one serves another request."""
        copied = RequestContext(self.services, self.client_host, is_sent=self.is_sent)
        copied.client_id = self.client_id
        copied.principal = self.principal
        copied.api_version = self.api_version
        copied.now_ms = self.now_ms
        return copied

    @property
    def image(self) -> MetadataImage:
        return self.services.image

    @property
    def config(self) -> BrokerConfig:
        return self.services.config

    @property
    def groups(self) -> Groups:
        return self.services.groups

    @property
    def controller(self) -> ControllerService:
        return self.services.controller
