"""As much of a node as the handlers of admin APIs see: a controller whose records are durable at once, or never."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from ottla.config import BrokerConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.controller import Controller
from ottla.metadata.image import MetadataImage
from ottla.replicated import Result, Token
from ottla.services import Deferred, RequestContext, Services
from tests.metadata.cluster import a_controller, commit

T = TypeVar("T")

DISK_FULL = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")


class AdminNode:
    """`fails`: the disk refuses; `is_stopping`: the controller takes no more calls."""

    cluster_id = "the-cluster"
    controller_id = 1
    is_controller = True

    def __init__(self, brokers: int = 1, config: BrokerConfig | None = None) -> None:
        self.config = config or BrokerConfig()
        self.state = a_controller(brokers, config=self.config)
        self.fails = False
        self.is_stopping = False

    @property
    def controller(self) -> "AdminNode":
        return self

    @property
    def image(self) -> MetadataImage:
        return self.state.image

    def call(self, decide: Callable[[Controller, Token, int], Result[Any, T]]) -> Deferred[T]:
        if self.is_stopping:
            raise DISK_FULL
        answer: Deferred[T] = Deferred()
        result = decide(self.state, answer, 0)
        if self.fails:
            answer.fail(DISK_FULL)
        else:
            answer.complete(commit(self.state, result))
        return answer

    def context(self, api_version: int = 0) -> RequestContext:
        context = RequestContext(cast("Services", self), "127.0.0.1")
        context.api_version = api_version
        return context


def answered(deferred: Deferred[T]) -> T:
    assert deferred.done
    assert deferred.error is None
    assert deferred.value is not None
    return deferred.value
