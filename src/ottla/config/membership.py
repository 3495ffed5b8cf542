"""Gossip: how often nodes look after each other, and what that may cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ottla.config.settings import check_limits, setting
from ottla.config.units import HOUR_MS, INT32_MAX, KIB, SECOND_MS

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "gossip_interval": "gossip_interval_ms",
        "probe_interval": "probe_interval_ms",
        "push_pull_interval": "push_pull_interval_ms",
        "udp_buffer_size": "udp_buffer_size_bytes",
    }
)
"""Names of the design that Ottla grew out of; a bare number under them is in the unit of the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipConfig:
    """Membership by gossip (decisions/0011)."""

    gossip_interval_ms: int = setting(200, at_least=1, at_most=INT32_MAX)
    """While there is news, it is sent to a few random members this often. The first time it is sent at once."""
    gossip_nodes: int = setting(3, at_least=1, at_most=100)
    """How many random members news is sent to each time."""
    probe_interval_ms: int = setting(200, at_least=1, at_most=INT32_MAX)
    """The time between two probes of a node. A dead member is probed within two of these, whatever the size of the
    cluster, and suspected two probe_timeout_ms later."""
    probe_timeout_ms: int = setting(150, at_least=1, at_most=INT32_MAX)
    """How long the answer to a probe may take before other members are asked to probe too; they have as long again."""
    indirect_probes: int = setting(3, at_least=0, at_most=100)
    """How many other members are asked to probe one that did not answer."""
    suspicion_multiplier: int = setting(15, at_least=1, at_most=1_000)
    """A suspected member that several others suspect too is declared failed after this many probe_interval_ms, times
    the decimal logarithm of the number of members where that is above one; after three times as long if nobody else
    suspects it."""
    push_pull_interval_ms: int = setting(15 * SECOND_MS, at_least=1, at_most=INT32_MAX)
    """The time between two exchanges of everything known with a random member: it mends what gossip missed."""
    load_interval_ms: int = setting(10 * SECOND_MS, at_least=1, at_most=INT32_MAX)
    """The least time between two versions of a node's load figures."""
    forget_failed_ms: int = setting(HOUR_MS, at_least=SECOND_MS)
    """How long members that failed or left are remembered: old news can't bring them back, and those that failed are
    probed now and then, so that the halves of a healed network find each other."""
    packet_bytes_max: int = setting(1_400, at_least=1_200, at_most=65_507)
    """The largest datagram that is sent. The default fits into an Ethernet frame with room for a tunnel."""
    udp_buffer_size_bytes: int = setting(256 * KIB, at_least=4 * KIB, at_most=INT32_MAX)
    """The socket's buffers for sending and receiving: a node that is busy for a moment loses nothing."""

    def __post_init__(self) -> None:
        check_limits(self, "gossip.")
