"""The cluster: how nodes find each other, and how long one may be silent before others take over."""

from dataclasses import dataclass

from ottla.config.settings import check_limits, setting
from ottla.config.units import INT32_MAX, SECOND_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Brokers and their controller."""

    broker_heartbeat_interval_ms: int = setting(
        500, at_least=10, at_most=INT32_MAX, kafka=("broker.heartbeat.interval.ms",)
    )
    """The time between two heartbeats that a broker sends to the controller."""
    broker_session_timeout_ms: int = setting(
        6 * SECOND_MS, at_least=100, at_most=INT32_MAX, kafka=("broker.session.timeout.ms",)
    )
    """A broker that the controller has not heard from for this long is fenced: it leads nothing any more."""
    broker_lease_ms: int = setting(1_200, at_least=100, at_most=INT32_MAX)
    """The same for a broker that gossip takes for dead as well: two signs agree, so less time is enough."""
    voters_max: int = setting(3, at_least=1, at_most=9)
    """Nodes that join become voters by themselves while the cluster has fewer than this many."""
    auto_rebalance_enable: bool = True
    """Whether partitions move by themselves when a broker has joined or left for good."""

    def __post_init__(self) -> None:
        check_limits(self, "cluster.")
