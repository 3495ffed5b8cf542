"""Transactions through the handlers of a whole node."""

from __future__ import annotations

import asyncio

import pytest

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.transactions.transaction import Producer
from tests.node_rig import NodeRig, values_of, with_node, with_node_that_dies
from tests.transactions.client import Client, committed, group_offset

both_versions = pytest.mark.parametrize("version", [1, 2])


@both_versions
def test_what_is_committed_is_read(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        client = Client(rig, version)
        await client.init()
        for number in range(3):
            for partition in range(2):
                await client.write("t", b"%d" % number, partition=partition)
            assert (await client.end(commits=True)).error_code == 0
        for partition in range(2):
            data = (await rig.fetch("t", partition=partition, isolation_level=1)).responses[0].partitions[0]
            assert (data.last_stable_offset, data.high_watermark) == (6, 6)
            assert data.aborted_transactions == []

    with_node(scenario)


@both_versions
def test_what_is_open_is_not_read(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"before")
        client = Client(rig, version)
        await client.init()
        await client.write("t", b"open")
        await rig.produce("t", b"after")
        data = (await rig.fetch("t", isolation_level=1)).responses[0].partitions[0]
        assert (data.last_stable_offset, data.high_watermark) == (1, 3)
        assert await committed(rig, "t") == [b"before"]
        await client.end(commits=True)
        assert await committed(rig, "t") == [b"before", b"open", b"after"]

    with_node(scenario)


def test_a_reader_of_committed_records_waits_for_the_end_of_a_transaction() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig)
        await client.init()
        waiting = rig.fetch("t", wait_ms=20_000, isolation_level=1)
        uncommitted = rig.fetch("t", wait_ms=20_000)
        await client.write("t", b"open")
        assert values_of(await uncommitted) == [b"open"]
        await rig.produce("t", b"behind it")
        assert not waiting.done()
        await client.end(commits=True)
        assert values_of(await waiting)[:2] == [b"open", b"behind it"]

    with_node(scenario)


@both_versions
def test_what_is_aborted_is_told_to_readers(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig, version)
        producer_id = (await client.init()).producer_id
        await client.write("t", b"a", b"b")
        assert (await client.end(commits=False)).error_code == 0
        await client.write("t", b"c")
        assert (await client.end(commits=True)).error_code == 0
        data = (await rig.fetch("t", isolation_level=1)).responses[0].partitions[0]
        aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()]
        assert aborted == [(producer_id, 0)]
        assert data.last_stable_offset == data.high_watermark == 5
        assert await committed(rig, "t") == [b"c"]

    with_node(scenario)


def test_a_transaction_survives_a_crash_at_rest_and_is_ended_after_it() -> None:
    seen: list[Producer] = []

    async def write(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig)
        await client.init()
        await client.write("t", b"a")
        seen.append(client.producer)

    async def end(rig: NodeRig) -> None:
        client = Client(rig)
        client.producer = seen[0]
        assert (await client.end(commits=True)).error_code == 0
        assert await committed(rig, "t") == [b"a"]

    with_node(end, disk=with_node_that_dies(write))


def test_a_transaction_costs_two_syncs_and_three_with_older_clients() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 3)
        for version, most in ((2, 2), (1, 3)):
            client = Client(rig, version, transactional_id=f"v{version}")
            await client.init()
            await _transaction(client)
            before = rig.disk.counters.syncs
            for _ in range(10):
                await _transaction(client)
            assert (rig.disk.counters.syncs - before) / 10 <= most, version

    with_node(scenario)


async def _transaction(client: Client) -> None:
    if client.version < 2:
        await client.add(("t", 0), ("t", 1), ("t", 2))
    assert await client.send_to("t", [0, 1, 2], b"v") == [0, 0, 0]
    assert (await client.end(commits=True)).error_code == 0


def test_only_what_was_aborted_among_the_records_is_told() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig)
        await client.init()
        for _ in range(3):
            await client.write("t", b"x" * 1_000)
            await client.end(commits=False)
        told = []
        for offset in range(0, 6, 2):
            answer = await rig.fetch("t", offset, isolation_level=1, max_bytes=1)
            data = answer.responses[0].partitions[0]
            told.append([entry.first_offset for entry in data.aborted_transactions or ()])
        assert told == [[0], [2], [4]]

    with_node(scenario)


# Who may write


def test_v2_a_late_record_of_an_old_transaction_is_refused() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig)
        await client.init()
        await client.write("t", b"a")
        late = client.producer
        await client.end(commits=True)
        client.producer = late
        assert await client.send("t", b"late") == ErrorCode.INVALID_PRODUCER_EPOCH

    with_node(scenario)


@pytest.mark.parametrize(
    ("api_version", "code"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_v1_a_partition_must_be_added_before_it_is_written_to(api_version: int, code: ErrorCode) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig, version=1)
        await client.init()
        assert await client.send("t", b"a", api_version=api_version) == code
        assert (await rig.fetch("t")).responses[0].partitions[0].high_watermark == 0

    with_node(scenario)


def test_records_of_a_transaction_need_its_id() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        answer = await rig.produce("t", b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        assert answer.error_code == ErrorCode.INVALID_TXN_STATE

    with_node(scenario)


def test_one_refused_partition_does_not_keep_the_others_from_being_written() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        client = Client(rig, version=1)
        await client.init()
        await client.add(("t", 0))
        assert await client.send_to("t", [0, 1], b"v") == [0, ErrorCode.INVALID_TXN_STATE]

    with_node(scenario)


@pytest.mark.parametrize(
    ("request_version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]
)
def test_old_clients_know_fencing_by_another_name(request_version: int, code: ErrorCode) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        zombie = Client(rig, version=1)
        await zombie.init()
        await Client(rig, version=1).init()
        request = EndTxnRequest(
            transactional_id="x",
            producer_id=zombie.producer.producer_id,
            producer_epoch=zombie.producer.epoch,
            committed=True,
        )
        assert (await rig.ask(request, request_version)).error_code == code

    with_node(scenario)


def test_partitions_that_do_not_exist_are_not_added_nor_are_the_others() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig, version=1)
        await client.init()
        codes = await client.add(("t", 0), ("t", 1), ("nope", 0))
        assert codes == [
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    with_node(scenario)


def test_brokers_ask_about_several_transactions_at_once() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig, version=1)
        await client.init()
        await client.add(("t", 0))

        def about(transactional_id: str, verify_only: bool) -> AddPartitionsToTxnTransaction:
            return AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=client.producer.producer_id,
                producer_epoch=client.producer.epoch,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
            )

        request = AddPartitionsToTxnRequest(transactions=[about("x", True), about("y", True), about("x", False)])
        answer = await rig.ask(request, 5)
        codes = [
            result.topic_results[0].results_by_partition[0].partition_error_code
            for result in answer.results_by_transaction
        ]
        assert codes == [0, ErrorCode.INVALID_PRODUCER_ID_MAPPING, 0]

    with_node(scenario)


# Offsets


@both_versions
@pytest.mark.parametrize("commits", [True, False])
def test_offsets_count_with_their_transaction(version: int, commits: bool) -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        client = Client(rig, version)
        await client.init()
        assert await client.commit_offset("g", "t", 7) == 0
        assert await group_offset(rig, "g", "t") == (-1, 0)
        assert await group_offset(rig, "g", "t", require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert (await client.end(commits)).error_code == 0
        assert await group_offset(rig, "g", "t", require_stable=True) == (7 if commits else -1, 0)

    with_node(scenario)


def test_pending_offsets_survive_a_crash() -> None:
    seen: list[Producer] = []

    async def write(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        client = Client(rig)
        await client.init()
        assert await client.commit_offset("g", "t", 7) == 0
        seen.append(client.producer)

    async def end(rig: NodeRig) -> None:
        client = Client(rig)
        client.producer = seen[0]
        while (await group_offset(rig, "g", "t"))[1] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await asyncio.sleep(0)
        assert await group_offset(rig, "g", "t", require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert (await client.end(commits=True)).error_code == 0
        assert await group_offset(rig, "g", "t", require_stable=True) == (7, 0)

    with_node(end, disk=with_node_that_dies(write))


def test_a_zombie_commits_no_offsets() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        zombie = Client(rig)
        await zombie.init()
        await Client(rig).init()
        assert await zombie.commit_offset("g", "t", 7) == ErrorCode.INVALID_PRODUCER_EPOCH

    with_node(scenario)


def test_offsets_of_a_generation_that_is_unknown_are_refused() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        client = Client(rig)
        await client.init()
        code = await client.commit_offset("g", "t", 7, generation_id=3, member_id="m")
        assert code == ErrorCode.ILLEGAL_GENERATION

    with_node(scenario)


# Two phases


def test_a_prepared_transaction_is_taken_over_after_a_crash_and_committed() -> None:
    seen: list[Producer] = []

    async def prepare(rig: NodeRig) -> None:
        await rig.create("t", 2)
        writer = Client(rig)
        await writer.init(enable2_pc=True)
        await writer.write("t", b"a", partition=0)
        await writer.write("t", b"a", partition=1)
        seen.append(writer.producer)

    async def take_over(rig: NodeRig) -> None:
        heir = Client(rig)
        answer = await heir.init(enable2_pc=True, keep_prepared_txn=True)
        assert Producer(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == seen[0]
        assert await heir.send("t", b"more") == ErrorCode.INVALID_TXN_STATE
        assert (await heir.end(commits=True)).error_code == 0
        await heir.write("t", b"b")
        assert (await heir.end(commits=True)).error_code == 0
        assert await committed(rig, "t", 0) == [b"a", b"b"]
        assert await committed(rig, "t", 1) == [b"a"]

    with_node(take_over, disk=with_node_that_dies(prepare))


def test_two_phases_can_be_forbidden() -> None:
    async def scenario(rig: NodeRig) -> None:
        answer = await Client(rig).init(enable2_pc=True)
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    with_node(scenario, transactions=TransactionConfig(transaction_two_phase_commit_enable=False))


# Administration


def test_transactions_are_listed_and_described() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig)
        await client.init()
        await client.write("t", b"a")
        listed = await rig.ask(ListTransactionsRequest(state_filters=["Ongoing", "Sleeping"]))
        assert listed.unknown_state_filters == ["Sleeping"]
        assert [found.transactional_id for found in listed.transaction_states] == ["x"]
        assert not (await rig.ask(ListTransactionsRequest(transactional_id_pattern="y.*"))).transaction_states
        assert not (await rig.ask(ListTransactionsRequest(duration_filter=60_000))).transaction_states
        described, missing = (
            await rig.ask(DescribeTransactionsRequest(transactional_ids=["x", "nope"]))
        ).transaction_states
        assert described.transaction_state == "Ongoing"
        assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", [0])]
        assert missing.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        about = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
        (active,) = (await rig.ask(about)).topics[0].partitions[0].active_producers
        assert (active.producer_id, active.current_txn_start_offset) == (client.producer.producer_id, 0)

    with_node(scenario)


def test_an_administrator_ends_a_transaction_in_one_partition() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig)
        await client.init()
        await client.write("t", b"a")
        marker = WritableTxnMarker(
            producer_id=client.producer.producer_id,
            producer_epoch=client.producer.epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1])],
        )
        answer = await rig.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        codes = [part.error_code for part in answer.markers[0].topics[0].partitions]
        assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        data = (await rig.fetch("t", isolation_level=1)).responses[0].partitions[0]
        assert data.last_stable_offset == data.high_watermark

    with_node(scenario)


def test_v2_a_marker_that_comes_late_does_not_end_the_next_transaction() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        client = Client(rig)
        await client.init()
        await client.write("t", b"a")
        await client.end(commits=True)
        late = WritableTxnMarker(
            producer_id=client.producer.producer_id,
            producer_epoch=client.producer.epoch,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            transaction_version=2,
        )

        async def write_again() -> int:
            answer = await rig.ask(WriteTxnMarkersRequest(markers=[late]))
            code: int = answer.markers[0].topics[0].partitions[0].error_code
            return code

        assert await write_again() == 0
        end_offset = (await rig.fetch("t")).responses[0].partitions[0].high_watermark
        assert end_offset == 2
        await client.write("t", b"b")
        assert await write_again() == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await committed(rig, "t") == [b"a"]

    with_node(scenario)
