"""The packet format: what is written is read, and what nobody wrote is refused."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.membership.member import NODE_ID_MAX, UINT32_MAX, UINT64_MAX, Address, Load
from ottla.membership.wire import (
    Ack,
    Alive,
    Entry,
    Failed,
    Gossip,
    Left,
    Loaded,
    Message,
    Nack,
    Packet,
    PacketWriter,
    Ping,
    PingRequest,
    Refused,
    Suspect,
    Sync,
    SyncReply,
    decode,
    encode_entry,
)

texts = st.text(max_size=255).filter(lambda text: len(text.encode()) <= 255)
node_ids = st.integers(0, NODE_ID_MAX)
uint32s = st.integers(0, UINT32_MAX)
uint64s = st.integers(0, UINT64_MAX)
addresses = st.builds(Address, texts, st.integers(0, 65_535))
loads = st.builds(Load, uint64s, uint64s, uint32s, uint32s, uint32s)

messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Ping, uint32s, node_ids),
    st.builds(Ack, uint32s, node_ids, uint64s),
    st.builds(PingRequest, uint32s, node_ids),
    st.builds(Nack, uint32s),
    st.builds(Sync, uint32s),
    st.builds(SyncReply, uint32s),
    st.builds(Gossip),
    st.builds(Refused),
)
entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(Alive, node_ids, uint64s, uint32s, addresses, addresses, st.none() | texts.filter(bool)),
    st.builds(Suspect, node_ids, uint64s, uint32s, node_ids),
    st.builds(Failed, node_ids, uint64s, uint32s, node_ids),
    st.builds(Left, node_ids, uint64s, uint32s),
    st.builds(Loaded, node_ids, uint64s, uint32s, loads),
)
packets = st.builds(Packet, texts, node_ids, uint64s, messages, st.lists(entries, max_size=5).map(tuple))

MEMBER = Alive(7, 2**40, 3, Address("host-7", 7946), Address("host-7", 9092), "rack-1")


def encoded(packet: Packet) -> bytes:
    writer = PacketWriter(packet.cluster_id, packet.node_id, packet.run_id)
    return writer.packet(writer.head(packet.message), map(encode_entry, packet.entries))


def with_checksum(content: bytes) -> bytes:
    return struct.pack(">I", crc32c(content)) + content


@given(packets)
def test_a_packet_is_read_as_it_was_written(packet: Packet) -> None:
    assert decode(encoded(packet)) == packet


def test_the_bytes_are_those_of_the_documentation() -> None:
    packet = Packet("c", 1, 2, Ping(3, 4), (Suspect(5, 6, 7, 8),))

    expected = (
        b"og\x01\x01" + b"\x01c" + b"\0\0\0\x01" + b"\0\0\0\0\0\0\0\x02"
        + b"\0\0\0\x03" + b"\0\0\0\x04"
        + b"\x02\0\x14" + b"\0\0\0\x05" + b"\0\0\0\0\0\0\0\x06" + b"\0\0\0\x07" + b"\0\0\0\x08"
    )  # fmt: skip
    assert encoded(packet) == with_checksum(expected)


@given(packets, st.data())
def test_any_flipped_bit_is_noticed(packet: Packet, data: st.DataObject) -> None:
    raw = bytearray(encoded(packet))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8

    with pytest.raises(ProtocolError):
        decode(bytes(raw))


@given(packets, st.data())
def test_a_packet_that_was_cut_off_is_refused(packet: Packet, data: st.DataObject) -> None:
    raw = encoded(packet)
    size = data.draw(st.integers(0, len(raw) - 1))

    with pytest.raises(ProtocolError):
        decode(raw[:size])


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(noise)


@given(packets, st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), max_size=6), st.integers(0, 2_000))
def test_whatever_has_a_right_checksum_is_read_or_refused(
    packet: Packet, changes: list[tuple[int, int]], size: int
) -> None:
    """Lengths, kinds and numbers that lie: no other exception, and nothing larger than the packet."""
    content = bytearray(encoded(packet)[4:])
    for at, value in changes:
        content[at % len(content)] = value

    try:
        read = decode(with_checksum(bytes(content[: size + 1])))
    except ProtocolError:
        return
    assert len(encoded(read)) <= len(content) + 4


@given(st.binary(max_size=300))
def test_noise_after_a_right_beginning_is_read_or_refused(noise: bytes) -> None:
    start = PacketWriter("c", 1, 2).head(Gossip())
    with suppress(ProtocolError):
        assert decode(with_checksum(start + noise)).node_id == 1


def test_an_entry_of_an_unknown_kind_is_skipped() -> None:
    writer = PacketWriter("c", 1, 2)
    unknown = b"\xc8\x00\x03abc"

    packet = decode(writer.packet(writer.head(Gossip()), [unknown, encode_entry(MEMBER), unknown]))

    assert packet.entries == (MEMBER,)


def test_fields_that_a_later_version_adds_to_an_entry_are_skipped() -> None:
    writer = PacketWriter("c", 1, 2)
    raw = encode_entry(MEMBER)
    longer = raw[:1] + (len(raw) - 3 + 4).to_bytes(2, "big") + raw[3:] + b"more"

    packet = decode(writer.packet(writer.head(Gossip()), [longer, encode_entry(Left(1, 2, 3))]))

    assert packet.entries == (MEMBER, Left(1, 2, 3))


def test_another_version_of_the_protocol_is_refused() -> None:
    content = bytearray(encoded(Packet("c", 1, 2, Gossip(), ()))[4:])
    content[2] += 1

    with pytest.raises(ProtocolError, match="version"):
        decode(with_checksum(bytes(content)))


def test_a_negative_node_id_is_refused() -> None:
    with pytest.raises(ProtocolError, match="-1"):
        decode(encoded(Packet("c", -1, 2, Gossip(), ())))


def test_a_text_that_is_not_utf8_is_refused() -> None:
    content = encoded(Packet("cc", 1, 2, Gossip(), ()))[4:].replace(b"cc", b"\xff\xfe")

    with pytest.raises(ProtocolError, match="UTF-8"):
        decode(with_checksum(content))
