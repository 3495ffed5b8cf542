"""Gathers what a stimulus brings about; puts rumours into the room that packets have left."""

from collections.abc import Sequence

from ottla.membership.effects import NOTHING, Effects, Event
from ottla.membership.member import Address
from ottla.membership.roster import Roster
from ottla.membership.rumours import Rumours, retransmits
from ottla.membership.wire import CHECKSUM_BYTES, Message, PacketWriter


class Outbox:
    __slots__ = ("_cluster_id", "_events", "_packet_bytes_max", "_packets", "_roster", "_writer", "rumours")

    def __init__(self, roster: Roster, cluster_id: str, packet_bytes_max: int) -> None:
        self.rumours = Rumours()
        self._roster = roster
        self._packet_bytes_max = packet_bytes_max
        self._packets: list[tuple[Address, bytes]] = []
        self._events: list[Event] = []
        self.introduce(cluster_id)

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def introduce(self, cluster_id: str) -> None:
        """From now on packets are of this cluster and of what this node now calls itself."""
        me = self._roster.me
        self._cluster_id = cluster_id
        self._writer = PacketWriter(cluster_id, me.node_id, me.run_id)

    def send(self, to: Address, message: Message, entries: Sequence[bytes] = ()) -> None:
        """`entries` first; rumours in the room that is left."""
        head = self._writer.head(message)
        room_bytes = self._packet_bytes_max - CHECKSUM_BYTES - len(head) - sum(map(len, entries))
        rumours = self.rumours.take(room_bytes, retransmits(self._roster.view.size))
        self._packets.append((to, self._writer.packet(head, [*entries, *rumours])))

    def send_pages(self, to: Address, message: Message, entries: Sequence[bytes]) -> None:
        """As many packets as it takes."""
        head = self._writer.head(message)
        for page in pages(entries, self._packet_bytes_max - CHECKSUM_BYTES - len(head)):
            self._packets.append((to, self._writer.packet(head, page)))

    def tell(self, event: Event) -> None:
        self._events.append(event)

    def drain(self) -> Effects:
        if not self._packets and not self._events:
            return NOTHING
        effects = Effects(packets=self._packets, events=self._events)
        self._packets, self._events = [], []
        return effects


def pages(entries: Sequence[bytes], room_bytes: int) -> list[list[bytes]]:
    """In order, no page above `room_bytes`, which every single entry fits into."""
    filled: list[list[bytes]] = []
    left_bytes = 0
    for entry in entries:
        if len(entry) > left_bytes:
            filled.append([])
            left_bytes = room_bytes
        filled[-1].append(entry)
        left_bytes -= len(entry)
    return filled
