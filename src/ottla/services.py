"""What a handler may call: the request's context, the node's services behind it, and answers that come later.

Handlers see the node only through the protocols in here. The runtime implements them; a test may implement just the one
that its handler uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.replicated import Result, Token

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.groups.shard import GroupShard
    from ottla.metadata.controller import Controller
    from ottla.metadata.image import MetadataImage

T = TypeVar("T")
U = TypeVar("U")


class Deferred(Token, Generic[T]):
    """An answer that is not there yet. Completed exactly once, with a value or with an error.

    Not a future: no loop, no task, no scheduling. The listener runs inside `complete`, which is what lets one commit
    answer hundreds of requests without a trip through the event loop for each.
    """

    __slots__ = ("_listener", "done", "error", "value")

    def __init__(self) -> None:
        self.done = False
        self.value: T | None = None
        self.error: BrokerError | None = None
        self._listener: Callable[[Deferred[T]], None] | None = None

    def complete(self, value: T) -> None:
        self.value = value
        self._finish()

    def fail(self, error: BrokerError) -> None:
        self.error = error
        self._finish()

    def _finish(self) -> None:
        self.done = True
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


class Groups(Protocol):
    """The consumer groups that this node coordinates."""

    def call(self, group_id: str, decide: Callable[[GroupShard, Token, int], Result[Any, T]]) -> Deferred[T]:
        """Let the group's shard decide, make its records durable, then answer.

        `decide` gets the shard, a token for the caller and the time in ms. Raises BrokerError if this node does not
        coordinate the group, or is still loading it.
        """

    def shards(self) -> Iterable[GroupShard]:
        """The shards that this node coordinates and has loaded: for answers about all groups."""


class ControllerService(Protocol):
    """The cluster's metadata, where it is changed."""

    def call(self, decide: Callable[[Controller, Token, int], Result[Any, T]]) -> Deferred[T]:
        """Let the controller decide, make its records durable and visible in the image, then answer."""


class Services(Protocol):
    """A node, as handlers see it."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that this node has applied."""

    @property
    def groups(self) -> Groups: ...

    @property
    def controller(self) -> ControllerService: ...


class RequestContext:
    """Who asks, and through what. One per connection; its fields are valid while the handler runs, no longer."""

    __slots__ = ("api_version", "client_host", "client_id", "now_ms", "principal", "services")

    def __init__(self, services: Any, client_host: str) -> None:
        self.services = services
        self.client_host = client_host
        self.client_id: str | None = None
        self.principal = "User:ANONYMOUS"
        self.api_version = 0
        self.now_ms = 0

    @property
    def image(self) -> MetadataImage:
        image: MetadataImage = self.services.image
        return image

    @property
    def config(self) -> BrokerConfig:
        config: BrokerConfig = self.services.config
        return config

    @property
    def groups(self) -> Groups:
        groups: Groups = self.services.groups
        return groups

    @property
    def controller(self) -> ControllerService:
        controller: ControllerService = self.services.controller
        return controller


__all__ = ["ControllerService", "Deferred", "ErrorCode", "Groups", "RequestContext", "Services", "gather"]
