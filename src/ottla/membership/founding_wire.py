"""The bytes of the packets by which a cluster is founded. Integers are big-endian, texts have their length before them.

    packet    CRC-32C of all that follows 4 B · magic "of" 2 B · version 1 B · kind 1 B · nonce 8 B · statement
    ASK       1   who are you, and what do you know? The nonce is the asker's.
    ANSWER    2   the nonce is that of the question: what is said was true after it was asked

    statement   node id 4 B · directory id 16 B · process 8 B · digest of the seeds 16 B · digest of the founders 16 B
                · flags 1 B (1: the cluster has a leader) · cluster id (text) · number of voters 2 B · voters
    voter       node id 4 B · directory id 16 B

A digest of zeros: there are no seeds, or not all founders are known yet. An empty cluster id: there is none yet. They
share a socket with gossip, from which their magic tells them apart. Whatever is not exactly this raises ProtocolError.
"""

import struct
from typing import NamedTuple

from ottla.errors import ProtocolError
from ottla.protocol.records import crc32c

VERSION = 1
ASK = 1
ANSWER = 2
FOUNDERS_MAX = 32
"""More voters than anybody should have; with all of them a packet fits into any Ethernet frame."""
DIRECTORY_ID_BYTES = 16
DIGEST_BYTES = 16
NO_DIGEST = bytes(DIGEST_BYTES)
NONCE_MAX = 2**63 - 1
CLUSTER_ID_BYTES_MAX = 255

_MAGIC = b"of"
_MAGIC_AT = 4
_CRC = struct.Struct(">I")
_START = struct.Struct(">2sBBQ")
_STATEMENT = struct.Struct(f">i{DIRECTORY_ID_BYTES}sQ{DIGEST_BYTES}s{DIGEST_BYTES}sBB")
_COUNT = struct.Struct(">H")
_FOUNDER = struct.Struct(f">i{DIRECTORY_ID_BYTES}s")
_ESTABLISHED = 1


class Founder(NamedTuple):
    """A node and the directory that it keeps its data in: with another directory it is not the same founder."""

    node_id: int
    directory_id: bytes


class Statement(NamedTuple):
    """What a node says of itself."""

    founder: Founder
    process: int
    """Drawn at the start of the process: tells this node from one with a copy of its directory."""
    seeds_digest: bytes
    founders_digest: bytes
    cluster_id: str
    voters: tuple[Founder, ...]
    """Those that its cluster was founded by."""
    is_established: bool


class FoundingPacket(NamedTuple):
    kind: int
    nonce: int
    statement: Statement


def is_founding(packet: bytes) -> bool:
    return packet[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] == _MAGIC


def encode(kind: int, nonce: int, said: Statement) -> bytes:
    cluster_id = said.cluster_id.encode()
    flags = _ESTABLISHED if said.is_established else 0
    fields = (*said.founder, said.process, said.seeds_digest, said.founders_digest, flags, len(cluster_id))
    content = b"".join(
        (
            _START.pack(_MAGIC, VERSION, kind, nonce),
            _STATEMENT.pack(*fields),
            cluster_id,
            _COUNT.pack(len(said.voters)),
            *(_FOUNDER.pack(*voter) for voter in said.voters),
        )
    )
    return _CRC.pack(crc32c(content)) + content


def decode(packet: bytes) -> FoundingPacket:
    """Raises ProtocolError, and nothing else, whatever the bytes are."""
    try:
        return _decode(packet)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"a founding packet that can't be read: {error}") from error


def _decode(packet: bytes) -> FoundingPacket:
    (crc,) = _CRC.unpack_from(packet)
    magic, version, kind, nonce = _START.unpack_from(packet, _CRC.size)
    if magic != _MAGIC or version != VERSION or kind not in (ASK, ANSWER):
        raise ProtocolError(f"not a founding packet of version {VERSION}")
    if crc != crc32c(packet[_CRC.size :]):
        raise ProtocolError("a founding packet with a wrong checksum")
    at = _CRC.size + _START.size
    node_id, directory_id, process, seeds, founders, flags, length = _STATEMENT.unpack_from(packet, at)
    at += _STATEMENT.size
    cluster_id = packet[at : at + length].decode()
    (count,) = _COUNT.unpack_from(packet, at + length)
    at += length + _COUNT.size
    if count > FOUNDERS_MAX or len(packet) != at + count * _FOUNDER.size:
        raise ProtocolError(f"a founding packet of {len(packet)} bytes with {count} voters")
    voters = tuple(Founder(*fields) for fields in _FOUNDER.iter_unpack(packet[at:]))
    if node_id < 0 or any(voter.node_id < 0 for voter in voters):
        raise ProtocolError("a founding packet with a negative node id")
    said = Statement(
        Founder(node_id, directory_id), process, seeds, founders, cluster_id, voters, bool(flags & _ESTABLISHED)
    )
    return FoundingPacket(kind, nonce, said)
