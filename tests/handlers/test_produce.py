import time

import pytest

from ottla.errors import ErrorCode
from ottla.observability.metrics import Refusals
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch
from tests.node_rig import NodeRig, with_node

LINES_MAX = Refusals().LINES_MAX


def batch(value: bytes = b"x") -> bytes:
    record = Record(key=None, value=value, headers=(), timestamp_ms=time.time_ns() // 1_000_000, offset=-1)
    return build_batch([record])


def code(answer: object) -> int:
    return answer.responses[0].partition_responses[0].error_code  # type: ignore[attr-defined, no-any-return]


def test_each_batch_is_answered_with_its_first_offset() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        assert (await rig.produce("t", b"a", b"b")).base_offset == 0
        assert (await rig.produce("t", b"c")).base_offset == 2

    with_node(scenario)


def test_a_repeated_batch_of_an_idempotent_producer_is_kept_once_and_gets_the_first_offset() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        first = await rig.produce("t", b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        again = await rig.produce("t", b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, 0)
        gap = await rig.produce("t", b"c", producer_id=7, producer_epoch=0, base_sequence=5)
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await rig.values("t") == [b"a"]

    with_node(scenario)


def test_a_gap_is_told_in_the_log_but_not_every_time(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        for _ in range(2 * LINES_MAX):
            await rig.produce("t", b"c", producer_id=7, producer_epoch=0, base_sequence=5)

    with_node(scenario)
    lines = [record for record in caplog.records if record.name == "ottla.handlers.produce"]
    assert len(lines) == LINES_MAX
    assert "producer 7 sent sequence number 5 in epoch 0 after 0 in epoch 0" in lines[0].getMessage()
    assert (vars(lines[0])["partition"], vars(lines[0])["error"]) == ("t-0", "OUT_OF_ORDER_SEQUENCE_NUMBER")


def test_a_batch_does_not_overtake_one_that_came_before_its_topic_was_known_here() -> None:
    """The first, which is sent again, would be out of order then: librdkafka gives up at that."""

    async def scenario(rig: NodeRig) -> None:
        async def send(sequence: int) -> int:
            answer = await rig.produce("t", b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)
            return int(answer.error_code)

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await send(0) == unknown
        await rig.create("t")
        assert [await send(sequence) for sequence in (1, 2, 0, 1, 2)] == [unknown, unknown, 0, 0, 0]

    with_node(scenario)


def test_one_bad_partition_does_not_spoil_the_others() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        bad = bytearray(batch())
        bad[-1] ^= 1
        data = [
            PartitionProduceData(index=0, records=batch(b"good")),
            PartitionProduceData(index=9, records=batch()),
            PartitionProduceData(index=0, records=bytes(bad)),
            PartitionProduceData(index=0, records=None),
        ]
        request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=data)])
        answers = (await rig.ask(request, 9)).responses[0].partition_responses
        assert [answer.error_code for answer in answers] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
        ]
        assert await rig.values("t") == [b"good"]

    with_node(scenario)


def test_topics_go_by_id_from_version_13_on() -> None:
    async def scenario(rig: NodeRig) -> None:
        topic_id = (await rig.create("t")).topic_id
        for wanted, expected in ((topic_id, ErrorCode.NONE), (b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID)):
            data = PartitionProduceData(index=0, records=batch())
            request = ProduceRequest(acks=1, topic_data=[TopicProduceData(topic_id=wanted, partition_data=[data])])
            answer = await rig.ask(request, 13)
            assert code(answer) == expected
            assert answer.responses[0].topic_id == wanted

    with_node(scenario)


def test_acks_0_is_written_and_not_answered() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        assert await rig.produce_bytes("t", batch(b"quiet"), acks=0) is None
        await rig.produce("t", b"loud")
        assert await rig.values("t") == [b"quiet", b"loud"]

    with_node(scenario)


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(acks: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        assert code(await rig.produce_bytes("t", batch(), acks=acks)) == ErrorCode.INVALID_REQUIRED_ACKS
        assert await rig.values("t") == []

    with_node(scenario)


def test_a_topic_can_not_demand_more_copies_than_it_has() -> None:
    """As with Kafka since KIP-966: the topic's replication factor is an upper limit."""

    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", min_insync_replicas="2")
        assert (await rig.produce("t", b"x")).error_code == ErrorCode.NONE

    with_node(scenario)


def test_with_log_append_time_the_answer_has_the_brokers_time() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", message_timestamp_type="LogAppendTime")
        now_ms = rig.node.clock.now_ms()
        assert abs((await rig.produce("t", b"x")).log_append_time_ms - now_ms) < 60_000
        await rig.create("u")
        assert (await rig.produce("u", b"x")).log_append_time_ms == -1

    with_node(scenario)
