import pytest

from ottla.errors import ErrorCode
from ottla.handlers.produce_short import short_produce
from ottla.handlers.registry import NOT_TAKEN
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.services import RequestContext
from tests.handlers.produce_wire import BODY_AT, VERSIONS, Wire, batch, of_partition, topic_data
from tests.node_rig import NodeRig, with_node


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_from_the_second_request_on_the_answer_is_the_same_without_decoding(version: int, acks: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        wire = Wire(rig, version)
        learnt_from = await wire.produce(batch(b"0"), acks=acks)
        assert not wire.took_short_way
        for number in (1, 2):
            answer = await wire.produce(batch(b"%d" % number), acks=acks)
            assert wire.took_short_way
            assert of_partition(answer).base_offset == number
            of_partition(answer).base_offset = of_partition(learnt_from).base_offset
            assert answer == learnt_from
        assert await rig.values("t") == [b"0", b"1", b"2"]

    with_node(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_other_partitions_of_a_topic_are_known_with_the_first(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=300)
        wire = Wire(rig, version)
        await wire.produce(batch())
        for index in (1, 299, 0):
            answer = of_partition(await wire.produce(batch(), index=index))
            assert wire.took_short_way
            assert (answer.index, answer.error_code, answer.base_offset) == (index, 0, 0 if index else 1)
        answer = of_partition(await wire.produce(batch(b"y" * 50)[:-1], index=299))
        assert (answer.index, answer.error_code) == (299, ErrorCode.CORRUPT_MESSAGE)
        for index in (300, -1):
            answer = of_partition(await wire.produce(batch(), index=index))
            assert not wire.took_short_way
            assert (answer.index, answer.error_code) == (index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    with_node(scenario)


@pytest.mark.parametrize("version", [5, 9, 13])
def test_a_commit_that_fails_is_told_of_the_partition_it_was_for(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=3)
        wire = Wire(rig, version)
        await wire.produce(batch())
        with rig.commits_fail():
            answer = of_partition(await wire.produce(batch(), index=2))
        assert wire.took_short_way
        assert (answer.index, answer.error_code) == (2, ErrorCode.KAFKA_STORAGE_ERROR)

    with_node(scenario)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 40, 70, 128, 16_300, 16_400, 300_000])
def test_batches_of_all_sizes(version: int, size: int) -> None:
    """In flexible versions their size is one byte to three."""

    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        wire = Wire(rig, version)
        await wire.produce(batch())
        answer = await wire.produce(batch(b"y" * size))
        assert (wire.took_short_way, of_partition(answer).error_code) == (True, 0)
        assert await rig.values("t") == [b"x", b"y" * size]

    with_node(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_names_of_all_lengths(version: int) -> None:
    """In flexible versions those of more than 126 bytes have a length of two: they go the long way, every time."""

    async def scenario(rig: NodeRig) -> None:
        for length in (1, 126, 127, 128, 249):
            topic = "n" * length
            await rig.create(topic)
            wire = Wire(rig, version)
            offsets = [of_partition(await wire.produce(batch(b"y" * 200), topic)).base_offset for _ in range(3)]
            assert offsets == [0, 1, 2]
            assert wire.took_short_way == (length < 127 or not 9 <= version <= 12)

    with_node(scenario)


@pytest.mark.parametrize("version", [5, 9, 13])
def test_what_is_refused_is_refused_as_on_the_long_way(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", max_message_bytes="500")
        wire = Wire(rig, version)
        await wire.produce(batch())
        damaged = bytearray(batch())
        damaged[-1] ^= 1
        gap = batch(producer_id=7, producer_epoch=0, base_sequence=5)
        no_sequence = batch(producer_id=8, producer_epoch=0, base_sequence=-1)
        for records, code in (
            (bytes(damaged), ErrorCode.CORRUPT_MESSAGE),
            (batch(b"z" * 600), ErrorCode.MESSAGE_TOO_LARGE),
            (no_sequence, ErrorCode.INVALID_RECORD),
            (gap, ErrorCode.NONE),  # the first batch of a producer may have any number
            (batch(producer_id=7, producer_epoch=0, base_sequence=9), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            (b"", ErrorCode.INVALID_RECORD),
        ):
            short = await wire.produce(records)
            assert wire.took_short_way
            assert of_partition(short).error_code == code
            if code:
                assert short == await Wire(rig, version).produce(records)

    with_node(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_else_goes_the_long_way(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.create("u")
        wire = Wire(rig, version)
        await wire.produce(batch())
        one, other = topic_data(rig, "t", batch()), topic_data(rig, "u", batch())
        for request, left_over in (
            (ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[one]), b"\0"),
            (ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[one, other]), b""),
            (ProduceRequest(acks=0, timeout_ms=10_000, topic_data=[one]), b""),
            (ProduceRequest(acks=5, timeout_ms=10_000, topic_data=[one]), b""),
            (ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[]), b""),
            (ProduceRequest(acks=-1, timeout_ms=10_000, transactional_id="x", topic_data=[one]), b""),
        ):
            for _ in range(2):
                await wire.send(request, left_over=left_over)
                assert not wire.took_short_way, request

    with_node(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_is_cut_off_anywhere_is_left_to_the_decoder(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        wire = Wire(rig, version)
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic_data(rig, "t", batch())])
        await wire.send(request)
        frame = wire.frame(request)
        context = RequestContext(rig.node, "127.0.0.1")
        for size in range(BODY_AT, len(frame)):
            assert wire.short.serve(memoryview(frame)[:size], BODY_AT, context) is NOT_TAKEN

    with_node(scenario)


@pytest.mark.parametrize("version", [9, 13])
def test_a_topic_that_is_gone_is_not_written_to(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        wire = Wire(rig, version)
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic_data(rig, "t", batch())])
        for _ in range(2):
            await wire.send(request)
        assert wire.took_short_way, "and knows where the topic's partitions are"
        await rig.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
        gone = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert of_partition(await wire.send(request)).error_code == gone
        await rig.create("t")
        again = of_partition(await wire.send(request))
        assert (again.error_code, again.base_offset) == ((gone, -1) if version >= 13 else (0, 0))
        assert len(await rig.values("t")) == (0 if version >= 13 else 1)

    with_node(scenario)


def test_versions_without_a_log_start_offset_have_no_short_way() -> None:
    assert short_produce(4) is None
    assert short_produce(5) is not None
