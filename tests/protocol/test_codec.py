"""What a codec does beyond round trips, which the oracles see to: bounds, nulls, tags, and when it is compiled."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode, ProtocolError
from ottla.protocol.codec import codec_for, decode, encode
from ottla.protocol.decoder import ELEMENTS_MAX
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.primitives import int32
from ottla.protocol.schema import Request, Versioned, request, tagged
from tests.protocol.catalog import DATA, name_of, versions
from tests.protocol.strategies import examples, messages


def produce(records: bytes | None) -> ProduceRequest:
    partitions = [PartitionProduceData(index=3, records=records)]
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=partitions)])


@pytest.mark.parametrize(("cls", "version"), [(cls, v) for cls in DATA for v in versions(cls)], ids=name_of)
@given(drawn=st.data())
@examples(5)
def test_what_is_kept_in_logs_survives_a_round_trip(cls: type[Versioned], version: int, drawn: st.DataObject) -> None:
    message = drawn.draw(messages(cls, version))

    assert decode(cls, version, encode(message, version)) == message


def test_a_field_of_another_version_is_neither_written_nor_read() -> None:
    encoded = encode(HeartbeatRequest(group_id="g", group_instance_id="i"), 2)

    assert b"i" not in encoded
    assert decode(HeartbeatRequest, 2, encoded) == HeartbeatRequest(group_id="g", group_instance_id=None)


def test_error_codes_are_written_as_enums_and_read_as_numbers() -> None:
    encoded = encode(HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR), 4)

    assert decode(HeartbeatResponse, 4, encoded).error_code == ErrorCode.NOT_COORDINATOR
    assert type(decode(HeartbeatResponse, 4, encoded).error_code) is int


@pytest.mark.parametrize("version", [7, 9])
def test_records_are_a_view_into_the_buffer_that_was_decoded(version: int) -> None:
    buffer = bytearray(encode(produce(b"records"), version))
    partition = decode(ProduceRequest, version, buffer).topic_data[0].partition_data[0]

    assert isinstance(partition.records, memoryview)
    assert partition.records.obj is buffer


@pytest.mark.parametrize("version", [7, 9])
def test_pieces_of_records_are_written_without_being_copied(version: int) -> None:
    pieces: list[bytes | memoryview] = [b"first" * 40, memoryview(b"second" * 40)]
    answer = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=pieces)])])
    out: list[object] = []
    codec_for(FetchResponse, version + 3).encode(answer, out)

    assert all(any(piece is written for written in out) for piece in pieces)
    whole = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=b"".join(pieces))])])
    assert encode(answer, version + 3) == encode(whole, version + 3)


@pytest.mark.parametrize("version", [7, 9])
def test_no_records_are_null(version: int) -> None:
    message = produce(None)

    assert decode(ProduceRequest, version, encode(message, version)) == message


def test_decoding_begins_where_it_is_told_to_and_says_where_it_ended() -> None:
    message = HeartbeatRequest(group_id="g")
    encoded = encode(message, 4)

    assert codec_for(HeartbeatRequest, 4).decode(b"before" + encoded + b"after", 6) == (message, 6 + len(encoded))


def test_null_is_refused_in_a_version_that_does_not_know_it() -> None:
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None


def test_a_struct_may_be_null() -> None:
    request_with = DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="t", partition_index=1))

    for message in (DescribeTopicPartitionsRequest(), request_with):
        assert decode(DescribeTopicPartitionsRequest, 0, encode(message, 0)) == message


def test_a_marker_that_is_neither_null_nor_not_null_is_refused() -> None:
    encoded = encode(DescribeTopicPartitionsRequest(), 0)
    assert encoded.endswith(b"\xff\x00")

    with pytest.raises(ProtocolError, match="neither"):
        decode(DescribeTopicPartitionsRequest, 0, encoded[:-2] + b"\x02\x00")


def test_arrays_and_strings_longer_than_one_byte_of_varint_are_kept_whole() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name=f"{i:0200}") for i in range(300)])

    assert decode(MetadataRequest, 12, encode(message, 12)) == message


def test_a_tagged_field_with_its_default_is_left_out() -> None:
    def answer(leader: LeaderIdAndEpoch) -> bytes:
        partitions = [PartitionProduceResponse(current_leader=leader)]
        return encode(ProduceResponse(responses=[TopicProduceResponse(partition_responses=partitions)]), 10)

    equal_to_default = answer(LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1))

    assert equal_to_default == answer(PartitionProduceResponse().current_leader)
    assert len(answer(LeaderIdAndEpoch(leader_id=1))) > len(equal_to_default)


def test_tagged_fields_that_are_not_known_are_skipped() -> None:
    encoded = encode(ApiVersionsRequest(client_software_name="c"), 3)
    assert encoded.endswith(b"\x00")

    of_the_future = encoded[:-1] + b"\x02" + b"\x05\x03abc" + b"\xff\x01\x00"

    assert decode(ApiVersionsRequest, 3, of_the_future) == decode(ApiVersionsRequest, 3, encoded)


@request(key=999, versions=(0, 0), flexible_from=0)
class TaggedRequest(Request):
    known: int32 = tagged(1, default=7)
    numbers: Sequence[int32] | None = tagged(2)


def test_known_tagged_fields_are_read_among_unknown_ones() -> None:
    encoded = b"\x03" + b"\x00\x01z" + b"\x01\x04\x00\x00\x00\x09" + b"\x63\x00"

    assert decode(TaggedRequest, 0, encoded) == TaggedRequest(known=9)


@pytest.mark.parametrize("numbers", [(), [], [1, 2], None])
def test_a_tagged_array_may_be_empty_or_null(numbers: list[int] | None) -> None:
    message = TaggedRequest(numbers=numbers)

    assert decode(TaggedRequest, 0, encode(message, 0)) == message
    assert (encode(message, 0) == b"\x00") == (numbers is not None and not numbers)


@pytest.mark.parametrize("size", [3, 5])
def test_a_tagged_field_whose_size_is_wrong_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError):
        decode(TaggedRequest, 0, bytes((1, 1, size, 0, 0, 0, 9, 0)))


def test_bytes_that_are_left_over_are_refused() -> None:
    with pytest.raises(ProtocolError, match="1 bytes before"):
        decode(HeartbeatRequest, 4, encode(HeartbeatRequest(), 4) + b"\0")


@pytest.mark.parametrize("version", [0, 4])
def test_every_byte_that_is_missing_is_noticed(version: int) -> None:
    encoded = encode(HeartbeatRequest(group_id="group", member_id="member"), version)

    for length in range(len(encoded)):
        with pytest.raises(ProtocolError):
            decode(HeartbeatRequest, version, encoded[:length])


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode(HeartbeatRequest, 0, b"\x00\x01\xff" + bytes(6))


@pytest.mark.parametrize(
    ("version", "encoded"),
    [
        (1, b"\x7f\xff\xff\xff"),
        (12, b"\xff\xff\xff\xff\x0f"),
        (1, b"\xff\xff\xff\xfe"),
    ],
)
def test_an_array_that_can_not_be_there_is_refused_before_it_is_allocated(version: int, encoded: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, version, encoded + bytes(64))


def test_a_message_may_have_only_so_many_elements() -> None:
    fits = b"\x00\x00" * ELEMENTS_MAX
    assert len(decode(MetadataRequest, 0, ELEMENTS_MAX.to_bytes(4, "big") + fits).topics or ()) == ELEMENTS_MAX

    with pytest.raises(ProtocolError, match="more elements"):
        decode(MetadataRequest, 0, (ELEMENTS_MAX + 1).to_bytes(4, "big") + fits + b"\x00\x00")


def test_a_version_that_a_message_does_not_have_is_refused() -> None:
    with pytest.raises(ProtocolError, match="versions 3 to 13, not 2"):
        codec_for(ProduceRequest, 2)


def test_a_codec_is_compiled_once_and_only_the_half_that_is_used() -> None:
    codec = codec_for(TaggedRequest, 0)
    again = codec_for(TaggedRequest, 0)

    assert again is codec
    assert codec.decode is again.decode
    with pytest.raises(AttributeError):
        _ = codec.transcode
