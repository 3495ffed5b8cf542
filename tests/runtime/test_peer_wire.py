"""Frames between nodes: cut anywhere they come out whole, and what is no frame is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.runtime.peer_wire import (
    FrameKind,
    FrameReader,
    Hello,
    SnapshotPiece,
    SnapshotWanted,
    frame,
    hello_frame,
    read_hello,
    read_snapshot_piece,
    read_snapshot_wanted,
    snapshot_piece_frame,
    snapshot_wanted_frame,
)

FRAMES = st.lists(st.tuples(st.sampled_from(FrameKind), st.binary(max_size=50)), max_size=8)


@given(frames=FRAMES, cuts=st.lists(st.integers(1, 20), min_size=1, max_size=200))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    frames: list[tuple[FrameKind, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(b"".join(frame(kind, [content])) for kind, content in frames)
    reader, found = FrameReader(), []
    sizes = iter(cuts * (len(stream) + 1))
    while stream:
        piece = stream[: next(sizes)]
        stream = stream[len(piece) :]
        found += [(kind, bytes(content)) for kind, content in reader.feed(piece)]
    assert found == frames


def content_of(pieces: list[bytes | bytearray | memoryview]) -> memoryview:
    ((_, content),) = FrameReader().feed(b"".join(pieces))
    return content


def test_a_greeting_says_who_it_is() -> None:
    hello = Hello(node_id=7, directory_id=bytes(range(16)), cluster_id="räksmörgås")
    assert read_hello(content_of(hello_frame(hello))) == hello


def test_snapshots_travel_in_pieces() -> None:
    wanted = SnapshotWanted(index=5, term=2, position=1 << 40)
    assert read_snapshot_wanted(content_of(snapshot_wanted_frame(wanted))) == wanted
    piece = SnapshotPiece(index=5, term=2, end_offset=77, size=10, position=3, data=b"abc")
    assert read_snapshot_piece(content_of(snapshot_piece_frame(piece))) == piece


@pytest.mark.parametrize(
    "garbage",
    [b"\0\0\0\0\1", b"\xff\xff\xff\xff\1", b"\0\0\0\1\x63", b"GET / HTTP/1.1\r\n\r\n"],
    ids=["empty", "huge", "of no kind", "another protocol"],
)
def test_what_is_no_frame_is_refused(garbage: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(garbage))


@pytest.mark.parametrize("content", [b"", b"OTLA", b"WHAT" + bytes(30), b"OTLA\x09" + bytes(30)])
def test_what_is_no_greeting_is_refused(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_hello(memoryview(content))
