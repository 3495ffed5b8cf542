"""The cluster: how nodes find each other, and how long one may be silent before others take over."""

from dataclasses import dataclass
from enum import StrEnum

from ottla.config.settings import check_limits, setting
from ottla.config.units import GIB, INT32_MAX, MINUTE_MS, SECOND_MS


class Placement(StrEnum):
    """What may be put on a broker, and what is to be taken from it."""

    OPEN = "open"
    JOINING = "joining"
    """New here: it is filled up with its share of what the others hold."""
    DRAINING = "draining"
    """Somebody wants it out of service: all that it holds moves to others."""
    GONE = "gone"
    """The same, because it has been away for too long. Ends when it comes back."""

    @property
    def is_leaving(self) -> bool:
        """Whether the broker shall hold nothing."""
        return self in (Placement.DRAINING, Placement.GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Brokers and their controller."""

    broker_heartbeat_interval_ms: int = setting(
        400, at_least=10, at_most=INT32_MAX, kafka=("broker.heartbeat.interval.ms",)
    )
    """The time between two heartbeats that a broker sends to the controller."""
    broker_session_timeout_ms: int = setting(
        6 * SECOND_MS, at_least=100, at_most=INT32_MAX, kafka=("broker.session.timeout.ms",)
    )
    """A broker that the controller has not heard from for this long is fenced: it leads nothing any more."""
    broker_lease_ms: int = setting(800, at_least=100, at_most=INT32_MAX)
    """The same for a broker that gossip takes for dead as well: two signs agree, so less time is enough. A broker whose
    process was seen to have ended is not waited for."""
    voters_max: int = setting(3, at_least=1, at_most=9)
    """Nodes that join become voters by themselves while the cluster has fewer than this many."""
    auto_rebalance_enable: bool = True
    """Whether partitions move by themselves when a broker has joined or left for good."""
    auto_leader_rebalance_enable: bool = setting(True, kafka=("auto.leader.rebalance.enable",))
    """Whether leadership goes back to the preferred replica once that is in sync again, and from brokers that carry
    much more than others to those that carry less."""
    leader_rebalance_delay_ms: int = setting(30 * SECOND_MS, at_least=1, at_most=INT32_MAX)
    """A broker must have been in service for this long before leadership comes to it by itself; and leadership must not
    have changed for this long before leaders are moved because of load, so that all figures are newer than that: twice
    `gossip.load_interval_ms` at least."""
    broker_gone_after_ms: int = setting(10 * MINUTE_MS, at_least=0)
    """A broker that has been fenced for this long counts as gone for good: its replicas are made anew on others.
    0: never."""
    placement: Placement = Placement.OPEN
    """What may be put on a broker. It is set while the cluster runs (`ottla cluster decommission`), for one broker, as
    `ottla.cluster.placement`; a node's own file does not decide about it."""
    rebalance_moves_max: int = setting(10, at_least=1, at_most=10_000)
    """How many partitions are on their way to other brokers at once."""
    rebalance_bytes_max: int = setting(4 * GIB, at_least=1)
    """How much of them, as far as their sizes are known. One is always on its way, however large."""

    def __post_init__(self) -> None:
        check_limits(self, "cluster.")
