import random
from collections.abc import Sequence
from contextlib import nullcontext
from struct import error as StructError  # noqa: N812  # it is a class
from typing import Any

import pytest

from ottla.errors import BrokerError, ErrorCode, ProtocolError
from ottla.handlers.produce_several import Several
from ottla.handlers.registry import NOT_TAKEN
from ottla.protocol.codec import codec_for
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.replication.partition import Partition
from ottla.services import WITH_COMMIT, RequestContext
from tests.handlers.produce_wire import BODY_AT, VERSIONS, Wire, batch, topic_data
from tests.node_rig import NodeRig, with_node

OF_EACH_KIND = [5, 8, 9, 12, 13]
"""Versions: without and with errors of records, flexible, with hints of leaders, by topic id."""


def several(rig: NodeRig, batches: Sequence[tuple[int, bytes]], topic: str = "t", **more: Any) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in batches]
    topic_id = rig.node.image.topics[topic].topic_id
    of_topic = TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)
    return ProduceRequest(acks=more.pop("acks", -1), timeout_ms=10_000, topic_data=[of_topic], **more)


def told(answer: ProduceResponse | None) -> list[tuple[int, int, int]]:
    assert answer is not None
    return [(one.index, one.error_code, one.base_offset) for one in answer.responses[0].partition_responses]


async def values(rig: NodeRig, topic: str, partitions: int) -> list[list[bytes | None]]:
    return [await rig.values(topic, partition=index) for index in range(partitions)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_from_the_second_request_on_the_answer_is_the_same_without_decoding(version: int, acks: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=3)
        wire, long_way = Wire(rig, version), Wire(rig, version)
        for number, indices in enumerate([(0, 1, 2), (2, 0), (1, 2, 0), (0, 1)]):
            request = several(rig, [(index, batch(b"%d-%d" % (number, index))) for index in indices], acks=acks)
            answer = await wire.send(request)
            assert wire.took_short_way == (number > 0)
            assert [(index, code) for index, code, _ in told(answer)] == [(index, 0) for index in indices]
            long_way.short = type(long_way.short)(version)  # it has learnt nothing
            decoded: Any = await long_way.send(request)
            assert not long_way.took_short_way
            for one in decoded.responses[0].partition_responses:
                one.base_offset -= 1
            assert answer == decoded
        assert [len(each) for each in await values(rig, "t", 3)] == [8, 6, 6]

    with_node(scenario)


@pytest.mark.parametrize("version", OF_EACH_KIND)
@pytest.mark.parametrize("count", [2, 126, 127, 128, 300])
def test_any_number_of_batches(version: int, count: int) -> None:
    """In flexible versions their number is one byte or two."""

    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=300)
        wire = Wire(rig, version)
        await wire.send(several(rig, [(0, batch()), (1, batch())]))
        request = several(rig, [(index, batch(b"%d" % index)) for index in reversed(range(count))])
        answer = await wire.send(request)
        assert wire.took_short_way
        assert told(answer) == [(index, 0, 1 if index < 2 else 0) for index in reversed(range(count))]
        assert (await rig.values("t", partition=count - 1))[-1] == b"%d" % (count - 1)

    with_node(scenario)


@pytest.mark.parametrize("version", OF_EACH_KIND)
@pytest.mark.parametrize("sizes", [(0, 40), (70, 128), (16_300, 16_400, 300_000), (300_000, 1)])
def test_batches_of_all_sizes(version: int, sizes: tuple[int, ...]) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=3)
        wire = Wire(rig, version)
        await wire.send(several(rig, [(0, batch()), (1, batch())]))
        answer = await wire.send(several(rig, [(index, batch(b"y" * size)) for index, size in enumerate(sizes)]))
        assert wire.took_short_way
        assert [code for _, code, _ in told(answer)] == [0] * len(sizes)
        for index, size in enumerate(sizes):
            assert (await rig.values("t", partition=index))[-1] == b"y" * size

    with_node(scenario)


@pytest.mark.parametrize("version", OF_EACH_KIND)
def test_one_batch_has_a_shorter_way_which_is_learnt_all_the_same(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=2)
        wire = Wire(rig, version)
        for _ in range(2):
            await wire.send(several(rig, [(0, batch()), (1, batch())]))
        await wire.produce(batch(), index=1)
        assert not wire.took_short_way
        answer = await wire.produce(batch(), index=1)
        assert (wire.took_short_way, told(answer)) == (True, [(1, 0, 3)])

    with_node(scenario)


@pytest.mark.parametrize("version", OF_EACH_KIND)
@pytest.mark.parametrize("bad_at", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_what_is_refused_is_refused_alone_and_as_on_the_long_way(version: int, bad_at: tuple[int, ...]) -> None:
    async def scenario(rig: NodeRig) -> None:
        for topic in ("t", "u"):
            await rig.create(topic, partitions=3)
        wire = Wire(rig, version)
        await wire.send(several(rig, [(0, batch()), (1, batch())]))
        await Wire(rig, version).send(several(rig, [(0, batch()), (1, batch())], "u"))
        damaged = bytearray(batch())
        damaged[-1] ^= 1
        for bad in (bytes(damaged), b"", batch(producer_id=8, producer_epoch=0, base_sequence=-1)):
            batches = [(index, bad if index in bad_at else batch(b"good")) for index in range(3)]
            short = await wire.send(several(rig, batches))
            assert wire.took_short_way
            decoded = await Wire(rig, version).send(several(rig, batches, "u"))
            assert decoded is not None
            assert short is not None
            of_each = str(decoded.responses[0].partition_responses)
            assert str(short.responses[0].partition_responses) == of_each.replace("'u-", "'t-")
            assert [code != 0 for _, code, _ in told(short)] == [index in bad_at for index in range(3)]
        assert await values(rig, "t", 3) == await values(rig, "u", 3)

    with_node(scenario)


@pytest.mark.parametrize("version", OF_EACH_KIND)
@pytest.mark.parametrize("some_refused", [False, True])
def test_a_commit_that_fails_is_told_of_every_partition(version: int, some_refused: bool) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=3)
        wire = Wire(rig, version)
        await wire.send(several(rig, [(0, batch()), (1, batch())]))
        with rig.commits_fail():
            batches = [(2, batch()), (0, b"" if some_refused else batch()), (1, batch())]
            answer = await wire.send(several(rig, batches))
        assert wire.took_short_way
        failed, refused = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_RECORD
        assert told(answer) == [(2, failed, -1), (0, refused if some_refused else failed, -1), (1, failed, -1)]

    with_node(scenario)


@pytest.mark.pure
@pytest.mark.parametrize("version", OF_EACH_KIND)
@pytest.mark.parametrize("bad_at", [None, 0, 1, 2])
@pytest.mark.parametrize("lost_at", [(), (0,), (2,), (0, 2)])
def test_with_followers_it_waits_for_them_and_tells_what_they_did_not_get(
    version: int, bad_at: int | None, lost_at: tuple[int, ...]
) -> None:
    async def scenario(rig: NodeRig) -> None:
        for topic in ("t", "u"):
            await rig.create(topic, partitions=3)
        wire = Wire(rig, version)
        each = [(index, batch()) for index in range(3)]  # also so that none is opened later, and followers counted anew
        await wire.send(several(rig, each))
        await Wire(rig, version).send(several(rig, each, "u"))
        waited: list[int] = []
        when_committed = Partition.when_committed

        def lose_some(partition: Partition, offset: int, done: Any) -> None:
            index = partition.log.partition.partition
            waited.append(index)
            lost = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            when_committed(partition, offset, (lambda _: done(lost)) if index in lost_at else done)

        batches = [(index, b"" if index == bad_at else batch()) for index in (2, 0, 1)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rig.node.partitions, "has_followers", True)
            patch.setattr(Partition, "when_committed", lose_some)
            short = await wire.send(several(rig, batches))
            assert wire.took_short_way
            assert waited == [index for index in (2, 0, 1) if index != bad_at]
            decoded = await Wire(rig, version).send(several(rig, batches, "u"))
        assert short is not None
        assert decoded is not None
        assert short.responses[0].partition_responses == decoded.responses[0].partition_responses
        lost, bad = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.INVALID_RECORD
        codes = [bad if index == bad_at else lost if index in lost_at else 0 for index in (2, 0, 1)]
        assert [code for _, code, _ in told(short)] == codes

    with_node(scenario)


@pytest.mark.pure
def test_with_followers_and_acks_1_nobody_waits() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=2)
        wire = Wire(rig, 13)
        request = several(rig, [(0, batch()), (1, batch())], acks=1)
        await wire.send(request)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rig.node.partitions, "has_followers", True)
            patch.setattr(Partition, "when_committed", lambda *_: pytest.fail("somebody waits"))
            assert told(await wire.send(request)) == [(0, 0, 1), (1, 0, 1)]
        assert wire.took_short_way

    with_node(scenario)


class Client:
    """Who is told by the commit: takes whole frames."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def complete(self, value: bytes) -> None:
        self.frames.append(value)


@pytest.mark.parametrize("version", OF_EACH_KIND)
@pytest.mark.parametrize("count", [2, 3, 140])
@pytest.mark.parametrize("fails", [False, True])
def test_a_connection_that_repeats_itself_is_told_by_the_commit(version: int, count: int, fails: bool) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=140)
        wire, client = Wire(rig, version), Client()
        context = RequestContext(rig.node, "127.0.0.1")
        context.api_version, context.now_ms = version, rig.node.clock.now_ms()
        request = several(rig, [(index, batch()) for index in range(count)])
        frame = wire.frame(request)
        await wire.send(request)
        wire.short.serve(frame, BODY_AT, context)
        await rig.node.committer.drain()
        again = context.again
        assert again is not None
        with rig.commits_fail() if fails else nullcontext():
            assert again.serve(frame, again.end, context, client, 77) is WITH_COMMIT
            assert not client.frames
            await rig.node.committer.drain()
        (reply,) = client.frames
        assert int.from_bytes(reply[:4], "big") == len(reply) - 4
        assert int.from_bytes(reply[4:8], "big") == 77
        body_at = 9 if version >= ProduceRequest.flexible_from else 8
        assert version < ProduceRequest.flexible_from or reply[8] == 0
        answer, end = codec_for(ProduceResponse, version).decode(memoryview(reply), body_at)
        assert end == len(reply)
        code, offset = (ErrorCode.KAFKA_STORAGE_ERROR, -1) if fails else (0, 2)
        assert told(answer) == [(index, code, offset) for index in range(count)]

    with_node(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_else_goes_the_long_way_and_is_appended_once(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=2)
        await rig.create("u", partitions=2)
        wire = Wire(rig, version)
        two = [(0, batch()), (1, batch())]
        await wire.send(several(rig, two))
        one, other = topic_data(rig, "t", batch(), index=1), topic_data(rig, "u", batch())
        for request, left_over, appended in (
            (several(rig, two), b"\0", 1),
            (several(rig, [*two, (2, batch())]), b"", 1),
            (several(rig, [*two, (-1, batch())]), b"", 1),
            (ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[one, other]), b"", 1),
            (several(rig, two, acks=0), b"", 1),
            (several(rig, two, acks=5), b"", 0),
            (several(rig, two, transactional_id="x"), b"", 1),
        ):
            for _ in range(2):
                before = len(await rig.values("t", partition=1))
                await wire.send(request, left_over=left_over)
                assert not wire.took_short_way, request
                await rig.node.committer.drain()
                assert len(await rig.values("t", partition=1)) == before + appended

    with_node(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_is_cut_off_anywhere_is_left_to_the_decoder(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=3)
        wire = Wire(rig, version)
        request = several(rig, [(index, batch()) for index in range(3)])
        await wire.send(request)
        frame = wire.frame(request)
        context = RequestContext(rig.node, "127.0.0.1")
        for size in range(BODY_AT, len(frame)):
            assert wire.short.serve(memoryview(frame)[:size], BODY_AT, context) is NOT_TAKEN
        assert await values(rig, "t", 3) == [[b"x"]] * 3

    with_node(scenario)


@pytest.mark.parametrize("version", OF_EACH_KIND)
def test_what_is_found_in_a_damaged_frame_is_what_the_decoder_finds(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=3)
        request = several(rig, [(index, batch(b"y" * size)) for index, size in enumerate((20, 200, 3))])
        frame = Wire(rig, version).frame(request)
        start = {13: 24, 12: 10, 9: 10}.get(version, 15) + BODY_AT  # where the number of batches stands
        known, dice, found = Several(request, version), random.Random(version), 0
        assert len(known.batches(frame, start)) == 3
        for _ in range(20_000):
            damaged = bytearray(frame)
            for _ in range(dice.randint(1, 3)):
                damaged[dice.randrange(start, len(frame))] = dice.choice((0, 1, 2, 3, 4, 127, 128, dice.randrange(256)))
            try:
                batches = known.batches(bytes(damaged), start)
            except (IndexError, ProtocolError, StructError):
                continue
            if batches:
                found += 1
                decoded, _ = codec_for(ProduceRequest, version).decode(memoryview(bytes(damaged)), BODY_AT)
                data = decoded.topic_data[0].partition_data
                assert batches == [(one.index, one.records) for one in data]
        assert found > 1_000

    with_node(scenario)


@pytest.mark.parametrize("version", [9, 13])
def test_a_topic_that_is_gone_is_not_written_to(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", partitions=2)
        wire = Wire(rig, version)
        request = several(rig, [(0, batch()), (1, batch())])
        for _ in range(2):
            await wire.send(request)
        assert wire.took_short_way
        await rig.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
        gone = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert told(await wire.send(request)) == [(0, gone, -1), (1, gone, -1)]
        await rig.create("t", partitions=2)
        again = told(await wire.send(request))
        assert again == [(index, *((gone, -1) if version >= 13 else (0, 0))) for index in (0, 1)]

    with_node(scenario)
