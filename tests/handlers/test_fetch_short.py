"""A consumer's fetch that comes again: the short way says, byte for byte, what the long way says."""

import asyncio
import random

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.codec import decode
from ottla.protocol.known_fetch import JOINED_BYTES_MAX
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.fetch import (
    FetchResponse,
)
from tests.cluster_rig import ClusterRig, with_cluster
from tests.handlers.fetch_wire import VERSIONS, Wire, errors, every_version, isolation, of, sizes, some_versions
from tests.node_rig import NodeRig, with_node
from tests.transactions.client import Client


@every_version
@isolation
def test_who_waits_is_answered_by_the_next_append(version: int, isolation: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 3)
        wire = Wire(rig, version)
        at = of("t", 0, 1, 2)
        wire.learn(at, isolation_level=isolation)
        for index in (1, 0, 2, 1):
            request = wire.request({key: wire.tail(*key) for key in at}, isolation_level=isolation)
            long, mine = wire.ask_the_long_way(request), wire.ask(request)
            assert wire.took_short_way
            await asyncio.sleep(0)
            assert not mine.done()
            assert wire.waiters() == 6
            await rig.produce("t", b"news", partition=index)
            assert await mine == await long
            found = sizes(decode(FetchResponse, version, await mine))
            assert [number for number, size in enumerate(found) if size] == [index]
            assert wire.waiters() == 0

    with_node(scenario)


@every_version
@isolation
def test_who_waits_gets_all_that_one_commit_has_brought(version: int, isolation: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 4)
        wire = Wire(rig, version)
        at = of("t", 0, 1, 2, 3)
        wire.learn(at, isolation_level=isolation)
        request = wire.request({key: wire.tail(*key) for key in at}, isolation_level=isolation)
        long, mine = wire.ask_the_long_way(request), wire.ask(request)
        assert wire.took_short_way
        await asyncio.gather(*(rig.produce("t", b"news", partition=index) for index in (3, 0, 2)))
        assert await mine == await long
        found = sizes(decode(FetchResponse, version, await mine))
        assert [number for number, size in enumerate(found) if size] == [0, 2, 3]
        assert wire.waiters() == 0

    with_node(scenario)


@every_version
def test_when_time_is_up_the_answer_says_where_the_partitions_are(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        await rig.produce("t", b"x", b"y")
        wire = Wire(rig, version)
        wire.learn(of("t", 1, 0), max_wait_ms=20)
        answer = await wire.same(wire.request({("t", 1): 0, ("t", 0): 2}, max_wait_ms=20))
        assert [data.high_watermark for data in answer.responses[0].partitions] == [0, 2]
        assert sizes(answer) == [0, 0]
        assert wire.waiters() == 0

    with_node(scenario)


@every_version
@isolation
def test_what_is_there_is_read_at_once(version: int, isolation: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 3)
        await rig.create("u", 2)
        wire = Wire(rig, version)
        turned = [*of("t", 1, 2), *of("u", 0, 1), *of("t", 0)]
        for at in (of("t", 0, 1, 2), turned):
            wire.learn(at, isolation_level=isolation)
        for index, size in ((0, 3), (2, 200), (2, 5_000)):
            await rig.produce("t", b"x" * size, partition=index)
            await rig.produce("u", b"y" * size, partition=1)
        for at in (of("t", 0, 1, 2), turned):
            for offsets in (dict.fromkeys(at, 0), {key: min(1, wire.tail(*key)) for key in at}):
                answer = await wire.same(wire.request(offsets, isolation_level=isolation))
                assert any(sizes(answer))
                assert len(answer.responses) == len({topic for topic, _ in at})

    with_node(scenario)


@some_versions
def test_large_answers_are_the_same_and_keep_to_their_limits(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 3)
        wire = Wire(rig, version)
        at = of("t", 2, 0, 1)
        limits = [
            {"max_bytes": max_bytes, "partition_max_bytes": partition_max_bytes}
            for max_bytes in (0, 1, 6_000, 1 << 20)
            for partition_max_bytes in (0, 1_000, 8_000, 1 << 20)
        ]
        for limit in limits:
            wire.learn(at, **limit)
        for number in range(12):
            await rig.produce("t", b"x" * 5_000, partition=number % 3)
        for limit in limits:
            await wire.same(wire.request(dict.fromkeys(at, 0), **limit))
        assert sum(sizes(await wire.same(wire.request(dict.fromkeys(at, 0))))) > JOINED_BYTES_MAX

    with_node(scenario)


@some_versions
def test_who_does_not_want_to_wait_does_not(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        wire = Wire(rig, version)
        for more in ({"max_wait_ms": 0}, {"min_bytes": 0}):
            wire.learn(of("t", 0), **more)
            request = wire.request({("t", 0): 0}, **more)
            mine = wire.ask(request)
            assert wire.took_short_way
            assert mine.done()
            await wire.same(request)

    with_node(scenario)


@some_versions
def test_who_hangs_up_leaves_nothing_behind(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        wire = Wire(rig, version)
        wire.learn(of("t", 0, 1))
        mine = wire.ask(wire.request(dict.fromkeys(of("t", 0, 1), 0)))
        assert (wire.took_short_way, wire.waiters()) == (True, 2)
        assert wire.deferred is not None
        wire.deferred.abandon()
        assert wire.waiters() == 0
        await rig.produce("t", b"x")
        assert not mine.done()

    with_node(scenario)


@some_versions
def test_open_transactions_hold_back_readers_of_committed_records_alone(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        client = Client(rig)
        await client.init()
        wires = [Wire(rig, version), Wire(rig, version)]
        at = of("t", 0, 1)
        both = []
        for level, wire in enumerate(wires):
            wire.learn(at, isolation_level=level)
            request = wire.request(dict.fromkeys(at, 0), isolation_level=level)
            both.append((wire.ask_the_long_way(request), wire.ask(request)))
            assert wire.took_short_way
        await client.write("t", b"open")
        assert await both[0][0] == await both[0][1]
        await rig.produce("t", b"behind it")
        assert not both[1][1].done()
        request = wires[1].request(dict.fromkeys(at, 0), isolation_level=1)
        both.append((wires[1].ask_the_long_way(request), wires[1].ask(request)))
        assert wires[1].took_short_way
        await client.end(commits=True)
        for long, mine in both:
            assert await mine == await long
        await wires[1].same(request)
        assert wires[1].waiters() == 0

    with_node(scenario)


@some_versions
def test_hidden_records_are_told_of_when_time_is_up(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig)
        await client.init()
        wire = Wire(rig, version)
        more = {"isolation_level": 1, "max_wait_ms": 300}
        wire.learn(of("t", 0), **more)
        request = wire.request({("t", 0): 0}, **more)
        long, mine = wire.ask_the_long_way(request), wire.ask(request)
        assert wire.took_short_way
        await client.write("t", b"open")
        assert await mine == await long
        data = decode(FetchResponse, version, await mine).responses[0].partitions[0]
        assert (data.high_watermark, data.last_stable_offset) == (1, 0)

    with_node(scenario)


@some_versions
def test_aborted_transactions_are_told_as_on_the_long_way(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        client = Client(rig)
        await client.init()
        wire = Wire(rig, version)
        at = of("t", 0, 1)
        wire.learn(at, isolation_level=1)
        request = wire.request(dict.fromkeys(at, 0), isolation_level=1)
        long, mine = wire.ask_the_long_way(request), wire.ask(request)
        assert wire.took_short_way
        await client.write("t", b"no")
        await client.end(commits=False)
        assert await mine == await long
        for answer in (decode(FetchResponse, version, await mine), await wire.same(request, short=False)):
            assert answer.responses[0].partitions[0].aborted_transactions
        assert wire.waiters() == 0
        await wire.same(wire.request({("t", 0): 2, ("t", 1): 0}, isolation_level=1, max_wait_ms=0), short=False)
        await rig.produce("t", b"yes", partition=1)
        await wire.same(wire.request({("t", 0): 2, ("t", 1): 0}, isolation_level=1))

    with_node(scenario)


@every_version
def test_offsets_outside_of_the_log_go_the_long_way(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        for value in (b"a", b"b", b"c"):
            await rig.produce("t", value)
        wire = Wire(rig, version)
        wire.learn(of("t", 0, 1))
        delete = DeleteRecordsPartition(partition_index=0, offset=1)
        await rig.ask(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[delete])]))
        for offset in (-1, 0, 4, 99):
            answer = await wire.same(wire.request({("t", 0): offset, ("t", 1): 0}), short=False)
            assert errors(answer) == [ErrorCode.OFFSET_OUT_OF_RANGE, 0]
        answer = await wire.same(wire.request({("t", 0): 1, ("t", 1): 0}))
        assert [data.log_start_offset for data in answer.responses[0].partitions] == [1, 0]

    with_node(scenario)


@pytest.mark.parametrize("version", range(9, 18))
def test_readers_of_another_epoch_go_the_long_way(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        epoch = rig.node.partitions.get("t", 0).leader_epoch
        wire = Wire(rig, version)
        epochs = [{"current_leader_epoch": number} for number in (epoch, epoch + 1, epoch - 2, -2)]
        if version >= 12:
            epochs.append({"current_leader_epoch": epoch, "last_fetched_epoch": epoch})
            epochs.append({"current_leader_epoch": epoch, "last_fetched_epoch": epoch + 1})
        for more in epochs:
            is_right = set(more.values()) == {epoch}
            wire.learn(of("t", 0), **more)
            await wire.same(wire.request({("t", 0): 0}, max_wait_ms=0, **more), short=False)  # that is another request
            wire.learn(of("t", 0), max_wait_ms=20, **more)
            await wire.same(wire.request({("t", 0): 0}, max_wait_ms=20, **more), short=is_right)

    with_node(scenario)


@every_version
def test_a_topic_that_is_deleted_answers_who_waits_for_it(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        await rig.create("u")
        wire = Wire(rig, version)
        at = [*of("t", 0), *of("u", 0), *of("t", 1)]
        wire.learn(at)
        request = wire.request(dict.fromkeys(at, 0))
        long, mine = wire.ask_the_long_way(request), wire.ask(request)
        assert wire.took_short_way
        await rig.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
        gone = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await mine == await long
        assert gone in errors(decode(FetchResponse, version, await mine))
        assert wire.waiters() == 0
        await wire.same(request, short=False)

    with_node(scenario)


def test_a_partition_that_is_led_elsewhere_answers_who_waits_for_it() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await cluster.create("t", replication_factor=1)
        rig = cluster.leader("t")
        other = next(node_id for node_id, node in cluster.nodes.items() if node is not rig)
        wires = [Wire(rig, version) for version in (11, 12, 16)]
        waiting = []
        for wire in wires:
            wire.learn(of("t", 0))
            request = wire.request({("t", 0): 0})
            waiting.append((wire.ask_the_long_way(request), wire.ask(request)))
            assert wire.took_short_way
        target = ReassignablePartition(partition_index=0, replicas=[other])
        topic = ReassignableTopic(name="t", partitions=[target])
        await rig.ask(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=10_000))
        for wire, (long, mine) in zip(wires, waiting, strict=True):
            answer = decode(FetchResponse, wire.version, await mine)
            assert await mine == await long
            assert errors(answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            assert wire.waiters() == 0
        await cluster.until(lambda: cluster.partition("t").leader == other)

    with_cluster(scenario, count=2)


@some_versions
def test_it_counts_what_the_long_way_counts(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        wire = Wire(rig, version)
        at = of("t", 0, 1)
        wire.learn(at)
        await rig.produce("t", b"x" * 300)
        await rig.produce("t", b"y" * 500, partition=1)
        request, counted = wire.request(dict.fromkeys(at, 0)), []
        for ask in (wire.ask_the_long_way, wire.ask):
            before = _counted(rig)
            await ask(request)
            counted.append([now - then for now, then in zip(_counted(rig), before, strict=True)])
        assert wire.took_short_way
        assert counted[0] == counted[1]
        assert counted[1][0] == 2
        assert counted[1][1] > 300

    with_node(scenario)


def _counted(rig: NodeRig) -> list[int]:
    return [rig.node.fetcher.delivery.count, *(partition.read_bytes for partition in rig.node.partitions.led())]


@some_versions
def test_while_slow_readers_hold_the_memory_answers_are_small(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        wire = Wire(rig, version)
        wire.learn(of("t", 0))
        for _ in range(4):
            await rig.produce("t", b"x" * 50_000)
        request = wire.request({("t", 0): 0})
        assert sizes(await wire.same(request))[0] > 200_000
        rig.node._server.unsent_bytes += 1 << 30
        assert sizes(await wire.same(request))[0] < 70_000

    with_node(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_any_requests_in_any_state_are_answered_alike(seed: int) -> None:
    """Of what is known and of what is not, one after another, while records come and go."""
    chance = random.Random(seed)

    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 4)
        await rig.create("u", 2)
        partitions = [*of("t", 0, 1, 2, 3), *of("u", 0, 1)]
        client = Client(rig)
        await client.init()
        wires = [Wire(rig, version) for version in VERSIONS]
        asked = [(chance.sample(partitions, chance.randint(1, 6)), _any_limits(chance)) for _ in range(6)]
        for wire in wires:
            for at, more in asked:
                wire.learn(at, **more)
        taken = 0
        for _ in range(60):
            topic, index = chance.choice(partitions)
            if chance.random() < 0.2:
                await client.write(topic, b"z" * chance.randint(1, 3_000), partition=index)
                if chance.random() < 0.7:
                    await client.end(commits=chance.random() < 0.7)
            else:
                await rig.produce(topic, b"x" * chance.choice((1, 100, 9_000)), partition=index)
            wire = chance.choice(wires)
            at, more = chance.choice(asked)
            offsets = {key: wire.tail(*key) + chance.choice((0, 0, 0, -1, -1, -3, 1)) for key in at}
            request = wire.request(offsets, **more)
            long, mine = wire.ask_the_long_way(request), wire.ask(request)
            taken += wire.took_short_way
            assert await mine == await long
        assert taken > 10
        assert wires[0].waiters() == 0

    with_node(scenario)


def _any_limits(chance: random.Random) -> dict[str, int]:
    return {
        "isolation_level": chance.randint(0, 1),
        "max_wait_ms": chance.choice((0, 1)),
        "max_bytes": chance.choice((1, 5_000, 1 << 20)),
        "partition_max_bytes": chance.choice((1, 5_000, 1 << 20)),
    }
