"""The HTTP API: where it listens, and what one request may cost."""

from dataclasses import dataclass

from ottla.config.settings import check_limits, setting
from ottla.config.units import INT32_MAX, KIB, MIB, SECOND_MS

HTTP_PORT_DEFAULT = 8080
"""Taken by a node that is started from the command line and told nothing else, if it is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """The HTTP API."""

    port: int | None = setting(None, at_least=0, at_most=65_535)
    """The TCP port of the HTTP API; 0 takes a free one, none serves no HTTP."""
    address: str | None = None
    """Where it listens; none: only this machine can connect, whatever the Kafka port listens on."""
    body_bytes_max: int = setting(16 * MIB, at_least=KIB, at_most=INT32_MAX)
    """The largest body of a request; a larger one is refused with 413 as soon as that is known."""
    batch_records_max: int = setting(10_000, at_least=1)
    """Messages of one request to produce, and of one answer to consume or poll."""
    answer_bytes_max: int = setting(4 * MIB, at_least=KIB, at_most=INT32_MAX)
    """Bytes of log that one answer to consume or poll is made of; the first batch is always whole."""
    wait_ms_max: int = setting(30 * SECOND_MS, at_least=0, at_most=INT32_MAX)
    """The longest that a reader may ask to wait for messages."""
    request_timeout_ms: int = setting(10 * SECOND_MS, at_least=1, at_most=INT32_MAX)
    """For everything else: a request that is not done by then is answered with 503, one that has not arrived by then
    with 408, and a client that takes nothing of its answer for so long is hung up on."""
    idle_ms_max: int = setting(75 * SECOND_MS, at_least=1, at_most=INT32_MAX)
    """A connection without a request is closed after this time."""
    connections_max: int = setting(2_000, at_least=1)
    """Connections at once; a further one is answered with 429 and closed."""
    requests_max: int = setting(1_000, at_least=1)
    """Requests under way at once; a further one is answered with 429."""
    streams_max: int = setting(100, at_least=1)
    """Live tails at once; a further one is answered with 429."""
    metrics_partitions_max: int = setting(2_000, at_least=0)
    """Partitions that have metrics of their own; those beyond, by name, are only part of the sums."""

    def __post_init__(self) -> None:
        check_limits(self, "http.")
