"""What nodes of a cluster say to each other on the cluster port, over TCP. All integers are big-endian.

    frame    length 4 B (of what follows) · kind 1 B · content

    HELLO             magic 4 B · version 1 B · node id 4 B · directory id 16 B · cluster id: who dials, said first
    RAFT              a message of the quorum (`ottla.raft.wire`)
    SNAPSHOT_WANTED   index 8 B · term 8 B · position 8 B: send that snapshot, from this byte of it on
    SNAPSHOT_PIECE    index 8 B · term 8 B · end offset 8 B · size 8 B · position 8 B · bytes of the file

    HEARD             nothing: the one who was dialled has received something, so the way is open
    REFUSED           why, in words: the one who was dialled will have nothing to do with the other

A connection carries what the dialling node has to say; the other node dials itself to answer. Frames may be lost, when
a connection breaks or does not keep up: whoever misses an answer asks again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum

from ottla.errors import ProtocolError
from ottla.ports import Bytes
from ottla.values import value

MAGIC = b"OTLA"
VERSION = 1
FRAME_BYTES_MAX = 64 << 20
"""A frame holds at least one entry of the log, however large: what one decision may write is bounded elsewhere."""

_FRAME = struct.Struct(">IB")
_HELLO = struct.Struct(">4sBi16s")
_WANTED = struct.Struct(">qqq")
_PIECE = struct.Struct(">qqqqq")


class FrameKind(IntEnum):
    HELLO = 1
    RAFT = 2
    SNAPSHOT_WANTED = 3
    SNAPSHOT_PIECE = 4
    HEARD = 5
    REFUSED = 6


@value
class Hello:
    node_id: int
    directory_id: bytes
    cluster_id: str


@value
class SnapshotWanted:
    index: int
    term: int
    position: int


@value
class SnapshotPiece:
    index: int
    term: int
    end_offset: int
    """Of the log: where it goes on after the snapshot."""
    size: int
    """Of the whole file."""
    position: int
    data: bytes


def frame(kind: FrameKind, pieces: Sequence[Bytes] = ()) -> list[Bytes]:
    return [_FRAME.pack(1 + sum(map(len, pieces)), kind), *pieces]


def hello_frame(hello: Hello) -> list[Bytes]:
    fields = _HELLO.pack(MAGIC, VERSION, hello.node_id, hello.directory_id)
    return frame(FrameKind.HELLO, [fields, hello.cluster_id.encode()])


def read_hello(content: memoryview) -> Hello:
    try:
        magic, version, node_id, directory_id = _HELLO.unpack_from(content)
        cluster_id = str(content[_HELLO.size :], "utf-8")
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"not the greeting of a node: {error}") from error
    if magic != MAGIC or version != VERSION:
        raise ProtocolError(f"a greeting of version {version} that begins with {magic!r}")
    return Hello(node_id=node_id, directory_id=directory_id, cluster_id=cluster_id)


def snapshot_wanted_frame(wanted: SnapshotWanted) -> list[Bytes]:
    return frame(FrameKind.SNAPSHOT_WANTED, [_WANTED.pack(wanted.index, wanted.term, wanted.position)])


def read_snapshot_wanted(content: memoryview) -> SnapshotWanted:
    try:
        index, term, position = _WANTED.unpack(content)
    except struct.error as error:
        raise ProtocolError(f"not a request for a snapshot: {error}") from error
    return SnapshotWanted(index=index, term=term, position=position)


def snapshot_piece_frame(piece: SnapshotPiece) -> list[Bytes]:
    fields = _PIECE.pack(piece.index, piece.term, piece.end_offset, piece.size, piece.position)
    return frame(FrameKind.SNAPSHOT_PIECE, [fields, piece.data])


def read_snapshot_piece(content: memoryview) -> SnapshotPiece:
    try:
        index, term, end_offset, size, position = _PIECE.unpack_from(content)
    except struct.error as error:
        raise ProtocolError(f"not a piece of a snapshot: {error}") from error
    return SnapshotPiece(
        index=index,
        term=term,
        end_offset=end_offset,
        size=size,
        position=position,
        data=bytes(content[_PIECE.size :]),
    )


class FrameReader:
    """Cuts what arrives into frames."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: Bytes) -> Iterator[tuple[FrameKind, memoryview]]:
        """The frames that are complete now. ProtocolError for what can't be one."""
        self._buffer += data
        if not self._has_frame():
            return
        whole, at = bytes(self._buffer), 0
        self._buffer.clear()
        while len(whole) - at >= _FRAME.size and len(whole) >= (end := _end(whole, at)):
            yield _kind(whole[at + _FRAME.size - 1]), memoryview(whole)[at + _FRAME.size : end]
            at = end
        self._buffer += whole[at:]

    def _has_frame(self) -> bool:
        """A large one arrives in many pieces: they are not looked at before it is whole."""
        return len(self._buffer) >= _FRAME.size and len(self._buffer) >= _end(self._buffer, 0)


def _end(data: Bytes, at: int) -> int:
    length: int = _FRAME.unpack_from(data, at)[0]
    if not 1 <= length <= FRAME_BYTES_MAX:
        raise ProtocolError(f"a frame of {length} bytes")
    return at + _FRAME.size - 1 + length


def _kind(number: int) -> FrameKind:
    try:
        return FrameKind(number)
    except ValueError as error:
        raise ProtocolError(f"a frame of kind {number}") from error
