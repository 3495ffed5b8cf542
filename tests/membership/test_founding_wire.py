import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.membership.founding_wire import (
    ANSWER,
    ASK,
    FOUNDERS_MAX,
    Founder,
    FoundingPacket,
    Statement,
    decode,
    encode,
    is_founding,
)
from ottla.membership.wire import Gossip, PacketWriter

ids = st.integers(0, 2**31 - 1)
directories = st.binary(min_size=16, max_size=16)
founders = st.builds(Founder, ids, directories)
statements = st.builds(
    Statement,
    founders,
    st.integers(0, 2**64 - 1),
    directories,
    directories,
    st.text(max_size=60),
    st.lists(founders, max_size=FOUNDERS_MAX).map(tuple),
    st.booleans(),
)


@given(st.sampled_from([ASK, ANSWER]), st.integers(0, 2**64 - 1), statements)
def test_what_is_written_is_read(kind: int, nonce: int, said: Statement) -> None:
    packet = encode(kind, nonce, said)

    assert is_founding(packet)
    assert decode(packet) == FoundingPacket(kind, nonce, said)
    assert len(packet) <= 1_200


@given(statements, st.data())
def test_a_damaged_packet_is_refused(said: Statement, data: st.DataObject) -> None:
    packet = bytearray(encode(ASK, 1, said))
    packet[data.draw(st.integers(0, len(packet) - 1))] ^= data.draw(st.integers(1, 255))

    with pytest.raises(ProtocolError):
        decode(bytes(packet))


@given(st.binary(max_size=300))
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(garbage)


def test_gossip_is_told_apart() -> None:
    writer = PacketWriter("cluster", 1, 1)
    assert not is_founding(writer.packet(writer.head(Gossip()), ()))
