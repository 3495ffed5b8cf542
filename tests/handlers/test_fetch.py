import asyncio
from typing import Any, cast

from ottla.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.node_rig import NodeRig, values_of, with_node


def only(answer: object) -> object:
    return answer.responses[0].partitions[0]  # type: ignore[attr-defined]


def test_a_reader_gets_records_from_its_offset_on() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        for value in (b"a", b"b", b"c"):
            await rig.produce("t", value)
        assert await rig.values("t", 1) == [b"b", b"c"]
        assert await rig.values("t", 3) == []

    with_node(scenario)


def test_a_waiting_reader_is_answered_by_the_next_append() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        waiting = rig.fetch("t", wait_ms=20_000)
        await asyncio.sleep(0)
        assert not waiting.done()
        await rig.produce("t", b"news")
        assert values_of(await waiting) == [b"news"]

    with_node(scenario)


def test_a_reader_that_wants_more_bytes_waits_for_them() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        waiting = rig.fetch("t", wait_ms=20_000, min_bytes=1_000)
        await rig.produce("t", b"x" * 400)
        assert not waiting.done()
        await rig.produce("t", b"y" * 600)
        assert values_of(await waiting) == [b"x" * 400, b"y" * 600]

    with_node(scenario)


def test_a_reader_gives_up_after_its_time_and_gets_what_there_is() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"little")
        loop = asyncio.get_running_loop()
        started = loop.time()
        answer = await rig.fetch("t", wait_ms=50, min_bytes=10_000)
        assert loop.time() - started >= 0.045
        assert values_of(answer) == [b"little"]

    with_node(scenario)


def test_a_reader_that_hangs_up_leaves_nothing_behind() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        partition = rig.node.partitions.get("t", 0)
        from ottla.services import Deferred

        answer = rig.node.fetcher.fetch(
            FetchRequest(
                max_wait_ms=20_000,
                min_bytes=1,
                max_bytes=1 << 20,
                session_epoch=-1,
                topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1)])],
            ),
            11,
            0,
        )
        assert isinstance(answer, Deferred)
        assert len(partition.waiters) == 1
        answer.abandon()
        assert not partition.waiters

    with_node(scenario)


def test_offsets_outside_the_log_are_refused() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"x")
        for offset in (-1, 2, 99):
            answer = await rig.fetch("t", offset, wait_ms=10_000)
            assert only(answer).error_code == ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[attr-defined]

    with_node(scenario)


def test_a_leader_that_others_may_have_replaced_does_not_say_that_an_offset_is_beyond_the_log() -> None:
    """Or its readers, who have been with the new leader, begin all over."""

    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"x")
        partition = rig.node.partitions.get("t", 0)
        rig.node.fetcher.is_in_touch = lambda: False
        assert only(await rig.fetch("t", 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[attr-defined]
        partition.followers[2] = cast(Any, object())
        assert only(await rig.fetch("t", 2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER  # type: ignore[attr-defined]
        rig.node.fetcher.is_in_touch = lambda: True
        assert only(await rig.fetch("t", 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[attr-defined]
        partition.followers.clear()

    with_node(scenario)


def test_unknown_topics_are_told_per_partition_by_name_and_by_id() -> None:
    async def scenario(rig: NodeRig) -> None:
        answer = await rig.fetch("nowhere", wait_ms=10_000)
        assert only(answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # type: ignore[attr-defined]
        topic = FetchTopic(topic_id=b"?" * 16, partitions=[FetchPartition(partition=0, partition_max_bytes=100)])
        answer = await rig.ask(FetchRequest(max_bytes=100, session_epoch=-1, topics=[topic]), 13)
        assert only(answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID  # type: ignore[attr-defined]

    with_node(scenario)


def test_a_reader_of_another_leader_epoch_is_refused() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        wanted = FetchPartition(partition=0, partition_max_bytes=100, current_leader_epoch=5)
        topics = [FetchTopic(topic="t", partitions=[wanted])]
        answer = await rig.ask(FetchRequest(max_bytes=100, session_epoch=-1, topics=topics), 12)
        assert only(answer).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH  # type: ignore[attr-defined]

    with_node(scenario)


def test_the_first_batch_is_whole_however_little_is_asked_for_and_the_answer_stays_within_its_limit() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        for partition in (0, 1):
            await rig.produce("t", b"x" * 5_000, partition=partition)
        topics = [
            FetchTopic(topic="t", partitions=[FetchPartition(partition=p, partition_max_bytes=1_000) for p in (0, 1)])
        ]
        answer = await rig.ask(FetchRequest(max_bytes=1_000, min_bytes=1, session_epoch=-1, topics=topics), 12)
        first, second = answer.responses[0].partitions
        assert len(first.records) > 5_000
        assert len(second.records) == 0

    with_node(scenario)


def test_a_session_tells_only_what_is_new() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        partitions = [FetchPartition(partition=p, partition_max_bytes=1 << 20) for p in (0, 1)]
        full = FetchRequest(max_bytes=1 << 20, session_epoch=0, topics=[FetchTopic(topic="t", partitions=partitions)])
        session_id = (await rig.ask(full, 12)).session_id
        assert session_id > 0
        await rig.produce("t", b"x", partition=1)
        news = FetchRequest(max_bytes=1 << 20, min_bytes=1, session_id=session_id, session_epoch=1)
        answer = await rig.ask(news, 12)
        assert [data.partition_index for data in answer.responses[0].partitions] == [1]
        stale = await rig.ask(news, 12)
        assert stale.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    with_node(scenario)
