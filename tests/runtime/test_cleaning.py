"""A node compacts its logs by itself while it serves, and what it says of itself afterwards is true."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.config import CleanerConfig, GroupConfig, JournalConfig, StorageConfig, TransactionConfig
from ottla.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.records import Record, build_batch
from ottla.storage.checkpoints import read_kafka_offsets
from ottla.storage.clean_offsets import CLEAN_OFFSETS
from ottla.storage.log import Log
from ottla.storage.verify import verify_log_directory
from ottla.testing.disk import CrashingDisk
from ottla.transactions.transaction import Producer
from ottla.types import TopicPartition
from tests.node_rig import NodeRig, with_node, with_node_that_dies
from tests.transactions.client import Client, committed

from .test_node import commit_offset, committed_offset

SETTINGS: dict[str, Any] = {
    "cleaner": CleanerConfig(backoff_ms=10),
    "storage": StorageConfig(recovery_checkpoint_interval_ms=10),
    "journal": JournalConfig(file_size_bytes=1 << 20),
}


async def put(rig: NodeRig, topic: str, *pairs: tuple[bytes, bytes | None]) -> None:
    now_ms = rig.node.clock.now_ms()
    batch = build_batch([Record(key=key, value=value, timestamp_ms=now_ms) for key, value in pairs])
    answer = await rig.produce_bytes(topic, batch)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


async def create(rig: NodeRig, topic: str = "t", **configs: str) -> None:
    wanted = {"cleanup_policy": "compact", "segment_bytes": "2000", "min_cleanable_dirty_ratio": "0.1"} | configs
    assert (await rig.create(topic, 1, **wanted)).error_code == ErrorCode.NONE


def log_of(rig: NodeRig, topic: str = "t", partition: int = 0) -> Log:
    return rig.node.partitions.get(topic, partition).log


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def values(rig: NodeRig, topic: str = "t") -> list[bytes | None]:
    """From the first record to the last, as a consumer reads: in one fetch after the other."""
    found: list[bytes | None] = []
    log, offset = log_of(rig, topic), 0
    while offset < log.end_offset:
        found += await rig.values(topic, offset)
        for segment in log.segments:
            if segment.base_offset <= offset < segment.end_offset():
                offset = segment.end_offset()
                break
    return found


async def write_much(rig: NodeRig) -> None:
    await create(rig)
    for number in range(120):
        await put(rig, "t", (b"k%d" % (number % 3), b"%03d" % number * 20))


async def is_compacted(rig: NodeRig) -> None:
    log = log_of(rig)
    await until(lambda: log.clean_offset >= log.segments[-1].base_offset and log.swap is None)
    assert log.size_bytes < 4_500
    assert (await values(rig))[-3:] == [b"%03d" % number * 20 for number in (117, 118, 119)]


def test_a_log_is_compacted_while_it_is_written_and_after_a_restart_it_is_the_same() -> None:
    kept: list[bytes | None] = []

    async def before(rig: NodeRig) -> None:
        await write_much(rig)
        await is_compacted(rig)
        kept.extend(await values(rig))

    async def after(rig: NodeRig) -> None:
        assert await values(rig) == kept
        assert log_of(rig).clean_offset > 0

    disk = with_node(before, **SETTINGS)
    assert verify_log_directory(disk, "t-0").problems == ()
    assert read_kafka_offsets(disk, CLEAN_OFFSETS)[TopicPartition("t", 0)] > 0
    with_node(after, disk=disk)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_dies_while_it_compacts_has_every_newest_value(seed: int) -> None:
    async def before(rig: NodeRig) -> None:
        await write_much(rig)
        log = log_of(rig)
        await until(lambda: log.clean_offset > 0 or log.swap is not None)

    async def after(rig: NodeRig) -> None:
        await is_compacted(rig)
        assert rig.node._logs.report.problems == []

    disk = with_node_that_dies(before, disk=CrashingDisk(seed=seed), **SETTINGS)
    disk = with_node(after, disk=disk, **SETTINGS)
    assert verify_log_directory(disk, "t-0").problems == ()


def test_with_both_policies_old_segments_go_too() -> None:
    async def scenario(rig: NodeRig) -> None:
        await create(rig, cleanup_policy="compact,delete", retention_bytes="1")
        for number in range(120):
            await put(rig, "t", (b"k%d" % number, b"%03d" % number * 20))
        log = log_of(rig)
        await until(lambda: log.start_offset > 0)

    settings = SETTINGS | {"storage": StorageConfig(recovery_checkpoint_interval_ms=10, retention_check_interval_ms=20)}
    disk = with_node(scenario, **settings)
    assert verify_log_directory(disk, "t-0").problems == ()


def test_committed_offsets_are_compacted_and_are_still_the_last_ones() -> None:
    async def before(rig: NodeRig) -> None:
        assert (await rig.create("t")).error_code == ErrorCode.NONE
        for offset in range(150):
            assert await commit_offset(rig, "g", "t", offset) == ErrorCode.NONE
        log = log_of(rig, "__consumer_offsets")
        await until(lambda: log.clean_offset > 100)
        assert log.size_bytes < 5_000

    async def after(rig: NodeRig) -> None:
        assert await committed_offset(rig, "g", "t") == 149

    groups = GroupConfig(offsets_topic_num_partitions=1, offsets_topic_segment_bytes=2_000)
    disk = with_node(before, groups=groups, **SETTINGS)
    with_node(after, disk=disk, groups=groups)


def test_the_state_of_transactions_is_compacted_and_is_still_the_last_one() -> None:
    last: list[Producer] = []

    async def before(rig: NodeRig) -> None:
        assert (await rig.create("t")).error_code == ErrorCode.NONE
        client = Client(rig)
        await client.init()
        for _ in range(40):
            await client.write("t", b"v")
            assert (await client.end(commits=True)).error_code == ErrorCode.NONE
        log = log_of(rig, "__transaction_state")
        await until(lambda: log.clean_offset > 50 and log.size_bytes < 5_000)
        await client.write("t", b"open")
        last.append(client.producer)

    async def after(rig: NodeRig) -> None:
        client = Client(rig)
        client.producer = last[0]
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[client.transactional_id])
        assert (await rig.ask(find)).coordinators[0].error_code == ErrorCode.NONE
        assert (await client.end(commits=True)).error_code == ErrorCode.NONE
        assert (await committed(rig, "t"))[-1] == b"open"

    transactions = TransactionConfig(transaction_state_log_num_partitions=1, transaction_state_log_segment_bytes=2_000)
    disk = with_node(before, transactions=transactions, **SETTINGS)
    with_node(after, disk=disk, transactions=transactions)


def test_a_topic_that_is_deleted_and_made_again_is_not_taken_for_a_compacted_one() -> None:
    async def scenario(rig: NodeRig) -> None:
        await write_much(rig)
        await is_compacted(rig)
        await rig.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
        await create(rig)
        await put(rig, "t", (b"a", b"1"), (b"a", b"2"))
        assert log_of(rig).clean_offset == 0

    with_node(scenario, **SETTINGS)


def test_it_does_not_wait_for_the_next_regular_checkpoint() -> None:
    async def scenario(rig: NodeRig) -> None:
        await write_much(rig)
        await is_compacted(rig)

    with_node(scenario, cleaner=CleanerConfig(backoff_ms=10))


def test_it_can_be_switched_off() -> None:
    async def scenario(rig: NodeRig) -> None:
        await write_much(rig)
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert log_of(rig).clean_offset == 0

    with_node(scenario, **(SETTINGS | {"cleaner": CleanerConfig(enable=False, backoff_ms=10)}))
