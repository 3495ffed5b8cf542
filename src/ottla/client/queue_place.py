"""Where a queue is at the moment, as the queue and its consumers see it."""

from typing import Protocol

from ottla.client.queue_target import QueueMode
from ottla.client.queue_writer import ProducerWriter, Writer


class Place(Protocol):
    """What a Queue needs to know of where it is."""

    mode: QueueMode

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def hosting(self) -> bool:
        """Whether this process serves the queue."""

    def writer(self, topic: str, *, patience_s: float) -> Writer:
        """The best way to write to it. Another one may be better once `hosting` has changed."""

    def close(self) -> None: ...


class ClusterPlace:
    """A cluster that others run."""

    mode = QueueMode.KAFKA
    hosting = False

    def __init__(self, servers: str) -> None:
        self.bootstrap_servers = servers

    def writer(self, topic: str, *, patience_s: float) -> Writer:
        return ProducerWriter(self.bootstrap_servers, topic, patience_s=patience_s)

    def close(self) -> None:
        """Nothing is held."""
