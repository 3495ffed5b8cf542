"""How a queue writes: through a producer, or straight to the node that this process hosts."""

from typing import Any, Protocol

from ottla.client.delivery import DeliveryFuture
from ottla.client.producer import Producer
from ottla.client.settings import ProducerConfig


class Writer(Protocol):
    def write(self, key: Any, value: Any) -> DeliveryFuture:
        """Take a message; waits while too many are waiting."""

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all that was taken is acknowledged. Raises UndeliveredError."""

    def close(self, timeout: float | None = None) -> None:
        """Flush, and take no more."""


class ProducerWriter:
    """To a cluster, or to the process that hosts the directory."""

    def __init__(self, bootstrap_servers: str, topic: str, *, patience_s: float) -> None:
        """No linger, since `enqueue` waits for each message; under load, batches form while others are on the way."""
        self._topic = topic
        self._producer = Producer(
            ProducerConfig(
                bootstrap_servers=bootstrap_servers,
                client_id="ottla-queue",
                linger_ms=0,
                batch_size=1_000_000,
                max_block_ms=int(patience_s * 1000),
                delivery_timeout_ms=max(int(patience_s * 1000), 1),
                metrics_interval_ms=0,
                extra=QUIET,
            )
        ).start()
        self.flush = self._producer.flush
        self.close = self._producer.close

    def write(self, key: Any, value: Any) -> DeliveryFuture:
        return self._producer.send(self._topic, value, key)


QUIET = {"log_level": 2}
"""A host that ends is no news here, so librdkafka need not tell of every connection that breaks."""
