"""What went over the network, and what was not listened to: for metrics."""

from collections.abc import Sequence

from ottla.membership.effects import Change, Event, MemberChanged
from ottla.membership.member import Address


class Counters:
    """They only grow."""

    __slots__ = (
        "bytes_received", "bytes_sent", "foreign", "garbage", "misaddressed", "packets_received", "packets_sent",
        "suspicions",
    )  # fmt: skip

    def __init__(self) -> None:
        self.packets_sent = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.bytes_received = 0
        self.garbage = 0
        """Not a packet, a damaged one, or one of another version of the protocol."""
        self.foreign = 0
        """Of another cluster."""
        self.misaddressed = 0
        """Probes of another node that was at this address before."""
        self.suspicions = 0
        """Nodes that were believed to be alive, and then were not sure to be."""

    def sent(self, packets: Sequence[tuple[Address, bytes]]) -> None:
        self.packets_sent += len(packets)
        self.bytes_sent += sum(len(data) for _, data in packets)

    def told(self, events: Sequence[Event]) -> None:
        for event in events:
            self.suspicions += isinstance(event, MemberChanged) and event.change is Change.SUSPECTED

    def received(self, size_bytes: int) -> None:
        self.packets_received += 1
        self.bytes_received += size_bytes
