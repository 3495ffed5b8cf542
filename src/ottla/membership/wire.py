"""The bytes of a gossip packet. All integers are big-endian, texts are UTF-8 with their length in one byte before them.

    packet    CRC-32C of all that follows 4 B · magic "og" 2 B · version 1 B · kind 1 B · cluster id (text)
              · sender's node id 4 B · sender's run id 8 B · message · entries up to the end of the packet

    PING          1   sequence 4 B · target's node id 4 B
    ACK           2   sequence 4 B · node id 4 B · run id 8 B: who is alive, which need not be the sender
    PING_REQUEST  3   sequence 4 B · target's node id 4 B: please probe it, if you know where it is
    NACK          4   sequence 4 B: the target of a PING_REQUEST has not answered yet
    SYNC          5   sync id 4 B: entries are what the sender knows, please answer with what you know
    SYNC_REPLY    6   sync id 4 B: entries are what the sender knows
    GOSSIP        7   nothing but entries
    REFUSED       8   the receiver is of another cluster, or its node id is held by the member in the entry

    entry     kind 1 B · length of what follows 2 B · member's node id 4 B · member's run id 8 B · …

    ALIVE         1   … incarnation 4 B · gossip address · Kafka address · rack (text, empty: none)
    SUSPECT       2   … incarnation 4 B · who says so 4 B
    FAILED        3   … incarnation 4 B · who says so 4 B
    LEFT          4   … incarnation 4 B
    LOAD          5   … version 4 B · per second: bytes in 8 B, bytes out 8 B, requests 4 B · partitions 4 B, led 4 B

    address   host (text) · port 2 B

An entry of an unknown kind is skipped, and so is what follows the known fields of a known one: a later version can add
to both while nodes of this one are still about. A packet of another version is refused. A cluster id that is empty is
that of a node which has not found its cluster yet.

A table too large for one packet is sent as several, each of which is useful by itself: nothing is ever put together
from fragments, so a lost one costs only what was in it.

Whatever is not exactly this raises ProtocolError, and no length is believed before it was compared with what is there.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ottla.errors import ProtocolError
from ottla.membership.member import Address, Load
from ottla.protocol.records import crc32c

VERSION = 1
TEXT_BYTES_MAX = 255

_MAGIC = b"og"
_CRC = struct.Struct(">I")
_START = struct.Struct(">2sBB")
_SENDER = struct.Struct(">iQ")
_SEQUENCE = struct.Struct(">I")
_PING = struct.Struct(">Ii")
_ACK = struct.Struct(">IiQ")
_PORT = struct.Struct(">H")
_ENTRY = struct.Struct(">BH")
_OF_MEMBER = struct.Struct(">iQI")
_ACCUSER = struct.Struct(">i")
_LOAD = struct.Struct(">QQIII")


class Ping(NamedTuple):
    sequence: int
    target: int


class Ack(NamedTuple):
    sequence: int
    node_id: int
    run_id: int


class PingRequest(NamedTuple):
    sequence: int
    target: int


class Nack(NamedTuple):
    sequence: int


class Sync(NamedTuple):
    sync_id: int


class SyncReply(NamedTuple):
    sync_id: int


class Gossip(NamedTuple):
    pass


class Refused(NamedTuple):
    pass


Message = Ping | Ack | PingRequest | Nack | Sync | SyncReply | Gossip | Refused


class Alive(NamedTuple):
    node_id: int
    run_id: int
    incarnation: int
    gossip: Address
    kafka: Address
    rack: str | None


class Suspect(NamedTuple):
    node_id: int
    run_id: int
    incarnation: int
    accuser: int


class Failed(NamedTuple):
    node_id: int
    run_id: int
    incarnation: int
    accuser: int


class Left(NamedTuple):
    node_id: int
    run_id: int
    incarnation: int


class Loaded(NamedTuple):
    node_id: int
    run_id: int
    version: int
    load: Load


Entry = Alive | Suspect | Failed | Left | Loaded


class Packet(NamedTuple):
    cluster_id: str
    node_id: int
    run_id: int
    message: Message
    entries: tuple[Entry, ...]


# Writing


class PacketWriter:
    """Writes the packets of one sender."""

    __slots__ = ("_sender",)

    def __init__(self, cluster_id: str, node_id: int, run_id: int) -> None:
        self._sender = _text(cluster_id) + _SENDER.pack(node_id, run_id)

    def head(self, message: Message) -> bytes:
        """All of a packet up to its entries, but for the checksum."""
        kind = _MESSAGE_KINDS[type(message)]
        return _START.pack(_MAGIC, VERSION, kind) + self._sender + _encode_message(message)

    @staticmethod
    def packet(head: bytes, entries: Iterable[bytes]) -> bytes:
        content = head + b"".join(entries)
        return _CRC.pack(crc32c(content)) + content


CHECKSUM_BYTES = _CRC.size


def encode_entry(entry: Entry) -> bytes:
    content = _encode_entry(entry)
    return _ENTRY.pack(_ENTRY_KINDS[type(entry)], len(content)) + content


def _encode_message(message: Message) -> bytes:
    match message:
        case Ping() | PingRequest():
            return _PING.pack(*message)
        case Ack():
            return _ACK.pack(*message)
        case Nack() | Sync() | SyncReply():
            return _SEQUENCE.pack(*message)
        case _:
            return b""


def _encode_entry(entry: Entry) -> bytes:
    match entry:
        case Alive(node_id, run_id, incarnation, gossip, kafka, rack):
            places = _address(gossip) + _address(kafka) + _text(rack or "")
            return _OF_MEMBER.pack(node_id, run_id, incarnation) + places
        case Suspect(node_id, run_id, incarnation, accuser) | Failed(node_id, run_id, incarnation, accuser):
            return _OF_MEMBER.pack(node_id, run_id, incarnation) + _ACCUSER.pack(accuser)
        case Left():
            return _OF_MEMBER.pack(*entry)
        case Loaded(node_id, run_id, version, load):
            return _OF_MEMBER.pack(node_id, run_id, version) + _LOAD.pack(*load)


def _address(address: Address) -> bytes:
    return _text(address.host) + _PORT.pack(address.port)


def _text(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data


# Reading


def decode(data: bytes) -> Packet:
    """Raises ProtocolError, and nothing else, whatever the bytes are."""
    reader = _Reader(data)
    (crc,) = reader.take(_CRC)
    magic, version, kind = reader.take(_START)
    if magic != _MAGIC or version != VERSION:
        raise ProtocolError(f"not a gossip packet of version {VERSION}")
    if crc != crc32c(data[_CRC.size :]):
        raise ProtocolError("a gossip packet with a wrong checksum")
    if kind not in _MESSAGES:
        raise ProtocolError(f"a gossip packet of unknown kind {kind}")
    cluster_id = reader.text()
    node_id, run_id = reader.take(_SENDER)
    message = _MESSAGES[kind][1](reader)
    return Packet(cluster_id, _checked(node_id), run_id, message, tuple(_read_entries(reader)))


def _read_entries(reader: "_Reader") -> Iterable[Entry]:
    while reader.at < reader.end:
        kind, length = reader.take(_ENTRY)
        content = reader.bytes(length)
        if kind in _ENTRIES:
            yield _read_entry(kind, content)


@lru_cache(maxsize=1_024)
def _read_entry(kind: int, content: bytes) -> Entry:
    """The same news arrives a dozen times."""
    return _ENTRIES[kind][1](_Reader(content))


class _Reader:
    """A place in a packet, or in an entry."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.end = len(data)

    def take(self, fields: struct.Struct) -> tuple[Any, ...]:
        at = self._forward(fields.size)
        return fields.unpack_from(self.data, at)

    def text(self) -> str:
        length = self.data[self._forward(1)]
        try:
            return self.bytes(length).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError("a text in a gossip packet is not UTF-8") from error

    def address(self) -> Address:
        host = self.text()
        (port,) = self.take(_PORT)
        return Address(host, port)

    def bytes(self, length: int) -> bytes:
        at = self._forward(length)
        return self.data[at : self.at]

    def _forward(self, length: int) -> int:
        at = self.at
        if at + length > self.end:
            raise ProtocolError("a gossip packet ends too soon")
        self.at = at + length
        return at


def _checked(node_id: int) -> int:
    if node_id < 0:
        raise ProtocolError(f"{node_id} is not a node id")
    return node_id


def _read_ping(reader: _Reader) -> Ping:
    sequence, target = reader.take(_PING)
    return Ping(sequence, _checked(target))


def _read_ack(reader: _Reader) -> Ack:
    sequence, node_id, run_id = reader.take(_ACK)
    return Ack(sequence, _checked(node_id), run_id)


def _read_ping_request(reader: _Reader) -> PingRequest:
    sequence, target = reader.take(_PING)
    return PingRequest(sequence, _checked(target))


def _of_member(reader: _Reader) -> tuple[int, int, int]:
    node_id, run_id, number = reader.take(_OF_MEMBER)
    return _checked(node_id), run_id, number


def _accuser(reader: _Reader) -> int:
    return _checked(reader.take(_ACCUSER)[0])


def _read_alive(reader: _Reader) -> Alive:
    node_id, run_id, incarnation = _of_member(reader)
    return Alive(node_id, run_id, incarnation, reader.address(), reader.address(), reader.text() or None)


_MESSAGES: Mapping[int, tuple[type[Message], Callable[[_Reader], Message]]] = {
    1: (Ping, _read_ping),
    2: (Ack, _read_ack),
    3: (PingRequest, _read_ping_request),
    4: (Nack, lambda reader: Nack(*reader.take(_SEQUENCE))),
    5: (Sync, lambda reader: Sync(*reader.take(_SEQUENCE))),
    6: (SyncReply, lambda reader: SyncReply(*reader.take(_SEQUENCE))),
    7: (Gossip, lambda reader: Gossip()),
    8: (Refused, lambda reader: Refused()),
}
_ENTRIES: Mapping[int, tuple[type[Entry], Callable[[_Reader], Entry]]] = {
    1: (Alive, _read_alive),
    2: (Suspect, lambda reader: Suspect(*_of_member(reader), _accuser(reader))),
    3: (Failed, lambda reader: Failed(*_of_member(reader), _accuser(reader))),
    4: (Left, lambda reader: Left(*_of_member(reader))),
    5: (Loaded, lambda reader: Loaded(*_of_member(reader), Load(*reader.take(_LOAD)))),
}
_MESSAGE_KINDS = {message: kind for kind, (message, _) in _MESSAGES.items()}
_ENTRY_KINDS = {entry: kind for kind, (entry, _) in _ENTRIES.items()}
