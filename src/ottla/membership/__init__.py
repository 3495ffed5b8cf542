"""Who is there: nodes find each other from any address, and notice within a second when one falls silent.

SWIM gossip as a pure core: no socket, no clock, no task. Every node has one `Membership`.

    node.py       Membership: stimuli in, effects out; which packets are listened to
    judge.py      what to believe: the rules by which news is weighed, and how a node denies that it is dead
    prober.py     direct and indirect probes
    suspicion.py  how long a suspect has to speak up; health.py: how well this node itself is doing
    rumours.py    news on its way, a bounded number of times; outbox.py puts it into packets
    syncer.py     seeds, and the exchange of everything with one member now and then
    roster.py     who is known
    wire.py       the bytes
    member.py, effects.py    what goes in and what comes out

    founding.py   before that: how nodes that have nothing become one cluster; founding_wire.py, founding_ids.py

**Gossip is a hint, never the truth.** Nothing here is agreed upon: two nodes may believe different things at the same
moment, for seconds, and for as long as a network is cut in two. Who is a broker, who leads a partition and who is in
sync are records of the metadata log. A suspicion only makes the controller look at once where it would have looked a
moment later: it acts when its own lease has lapsed too. A wrong one costs a few packets and never a record.

**How the runtime drives it.** One UDP socket per node on the cluster port, its buffers set to `udp_buffer_size_bytes`.

    membership = Membership(cluster_id=…, started_ms=clock.now_ms(), now_ms=clock.monotonic_ms(), …)
    carry_out(membership.join(seeds, clock.monotonic_ms()))
    datagram received  → carry_out(membership.receive(data, Address(host, port), clock.monotonic_ms()))
    timer              → carry_out(membership.tick(clock.monotonic_ms()))
    carry_out(effects) : send each packet; hand over each event; set the one timer to `next_deadline_ms()`

Seeds are addresses as datagrams show them, so names are resolved first, and `join` may be called again when they
change, or with the addresses of all registered brokers: those that are there already cost nothing. A packet that can't
be sent is forgotten. `set_load` is called as often as figures are at hand. At a clean stop `leave` is called, and the
timer is served until `next_deadline_ms()` is None, or for half a second.
"""

from ottla.membership.counters import Counters
from ottla.membership.effects import (
    Change,
    ClusterAdopted,
    Effects,
    Event,
    ForeignCluster,
    MemberChanged,
    NodeIdConflict,
)
from ottla.membership.member import Address, Load, Member, Status
from ottla.membership.node import Membership

__all__ = [
    "Address",
    "Change",
    "ClusterAdopted",
    "Counters",
    "Effects",
    "Event",
    "ForeignCluster",
    "Load",
    "Member",
    "MemberChanged",
    "Membership",
    "NodeIdConflict",
    "Status",
]
