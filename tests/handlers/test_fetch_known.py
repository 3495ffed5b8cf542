"""Which fetches of consumers are remembered to go the short way, and for how long."""

import pytest

from ottla.handlers.all import fetch_short
from ottla.handlers.fetch_short import ALIKE_MAX, KEPT_MS_MIN, short_fetch
from ottla.handlers.registry import NOT_TAKEN
from ottla.protocol.known_fetch import PARTITIONS_MAX, TOPICS_MAX
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tests.handlers.fetch_wire import HEAD, Wire, every_version, of, sizes
from tests.node_rig import NodeRig, with_node


@every_version
def test_everything_else_goes_the_long_way(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        wire = Wire(rig, version)
        at = dict.fromkeys(of("t", 0, 1), 0)
        twice = FetchTopic(topic="t", partitions=[FetchPartition(partition=0), FetchPartition(partition=0)])
        others: list[tuple[FetchRequest, bytes]] = [
            (wire.request(at, max_wait_ms=0), b"\0"),
            (wire.request(at, max_wait_ms=10, min_bytes=2), b""),
            (wire.request({}, max_wait_ms=0), b""),
            (FetchRequest(topics=[twice]), b""),
            (wire.request({("nowhere", 0): 0}, max_wait_ms=0), b""),
            (wire.request({("t", 7): 0}, max_wait_ms=0), b""),
        ]
        if version >= 7:
            others.append((wire.request(at, max_wait_ms=0, session_epoch=0), b""))
            forgotten = [ForgottenTopic(topic="t", partitions=[1])]
            others.append((wire.request(at, max_wait_ms=0, forgotten_topics_data=forgotten), b""))
            others.append((wire.request(at, max_wait_ms=0, session_id=5), b""))
        if version >= 11:
            others.append((wire.request(at, max_wait_ms=0, rack_id="r"), b""))
        if version >= 15:
            others.append((wire.request(at, max_wait_ms=0, replica_state=ReplicaState(replica_id=1)), b""))
        else:
            others.append((wire.request(at, max_wait_ms=0, replica_id=1), b""))
        for request, left_over in others:
            for _ in range(3):
                wire.ask(request, left_over)
                assert not wire.took_short_way, request
                if wire.deferred is not None:
                    wire.deferred.abandon()
        assert wire.waiters() == 0

    with_node(scenario)


def test_large_requests_are_not_remembered() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", PARTITIONS_MAX + 1)
        topics = [f"t{number:03}" for number in range(TOPICS_MAX + 1)]
        for topic in topics:
            await rig.create(topic)
        for version in (11, 12, 16):
            for most, at in (
                (PARTITIONS_MAX, of("t", *range(PARTITIONS_MAX + 1))),
                (TOPICS_MAX, [(topic, 0) for topic in topics]),
            ):
                wire = Wire(rig, version)
                for asked, short in ((at[:most], True), (at, False)):
                    wire.learn(asked, max_wait_ms=0)
                    await wire.same(wire.request(dict.fromkeys(asked, 0), max_wait_ms=0), short=short)

    with_node(scenario)


@pytest.mark.parametrize("version", range(5, 13))
def test_names_of_all_lengths(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        for length in (1, 2, 126, 127, 128, 200, 249):
            topic = "n" * length
            await rig.create(topic)
            wire = Wire(rig, version)
            wire.learn(of(topic, 0))
            await rig.produce(topic, b"x")
            assert sizes(await wire.same(wire.request({(topic, 0): 0})))[0] > 0

    with_node(scenario)


def test_while_there_are_quotas_all_go_the_long_way() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        wire = Wire(rig, 11)
        wire.learn(of("t", 0), max_wait_ms=0)
        request = wire.request({("t", 0): 0}, max_wait_ms=0)
        await wire.same(request)
        entity = EntityData(entity_type="user", entity_name="x")
        quota = OpData(key="consumer_byte_rate", value=1e9)
        await rig.ask(AlterClientQuotasRequest(entries=[RequestEntryData(entity=[entity], ops=[quota])]))
        await wire.same(request, short=False)

    with_node(scenario)


@every_version
def test_a_frame_that_is_cut_off_anywhere_is_left_to_the_decoder(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        wire = Wire(rig, version)
        wire.learn(of("t", 0, 1))
        frame = wire.frame(wire.request(dict.fromkeys(of("t", 0, 1), 0)))
        for size in range(len(HEAD), len(frame)):
            assert wire.short.serve(frame[:size], len(HEAD), wire.context()) is NOT_TAKEN
        assert wire.short.serve(frame, len(HEAD), wire.context()) is not NOT_TAKEN

    with_node(scenario)


def test_one_who_is_behind_is_not_learnt_from() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"x")
        wire = Wire(rig, 11)
        for _ in range(2):
            await wire.same(wire.request({("t", 0): 0}), short=False)
        wire.learn(of("t", 0))
        await wire.same(wire.request({("t", 0): 0}))

    with_node(scenario)


def test_of_requests_that_begin_alike_the_last_ones_are_remembered() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", ALIKE_MAX + 2)
        wire = Wire(rig, 11)
        pairs = [of("t", 0, other) for other in range(1, ALIKE_MAX + 2)]
        for pair in pairs:
            wire.learn(pair, max_wait_ms=0)
        for pair in pairs[1:]:
            await wire.same(wire.request(dict.fromkeys(pair, 0), max_wait_ms=0))
        await wire.same(wire.request(dict.fromkeys(pairs[0], 0), max_wait_ms=0), short=False)
        assert wire.short._memory_bytes == sum(
            known.memory_bytes for all_of in wire.short._known.values() for known in all_of
        )

    with_node(scenario)


def test_what_is_remembered_is_bounded_and_not_forgotten_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: NodeRig) -> None:
        monkeypatch.setattr(fetch_short, "MEMORY_BYTES_MAX", 26_000)
        await rig.create("t", 20)
        wire = Wire(rig, 11)

        async def is_known(index: int) -> bool:
            wire.ask(wire.request({("t", index): 0}, max_wait_ms=0))
            return wire.took_short_way

        for index in range(20):
            assert not await is_known(index)
        assert 26_000 < wire.short._memory_bytes < 29_000
        assert [await is_known(index) for index in range(20)] == [True] * 11 + [False] * 9
        wire.short._since_ms -= KEPT_MS_MIN
        assert not await is_known(15)
        assert await is_known(15)
        assert wire.short._memory_bytes < 3_000
        assert not await is_known(0)

    with_node(scenario)


def test_versions_without_a_log_start_offset_have_no_short_way() -> None:
    assert short_fetch(4) is None
    assert short_fetch(5) is not None
