"""librdkafka knows a new leader before that knows itself: what the old one has stored is not stored twice.

It sends several batches at once. The first is turned away; the next is served by a leader. If that one were told that
its numbers are out of order, librdkafka would begin a new epoch of its producer, in all partitions, and send again what
it has no answer for, also what the old leader of another partition has stored.
"""

from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.config import JournalConfig
from ottla.metadata.state import Changes
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.protocol.records import iter_batches, read_records
from ottla.replication.partition import Partition
from ottla.runtime.connection import CLIENT_IS_SLOW
from ottla.runtime.partitions import Partitions
from tests.cluster_rig import HOST, ClusterRig, with_cluster
from tests.interop.confluent import Deliveries, new_producer
from tests.node_rig import NodeRig

TOPIC = "early"
SENT, STORED = 0, 1
"""Two partitions that node 1 leads. What is under way to the first when it stops has not been looked at; what is under
way to the second is stored, on both nodes that have it, and not acknowledged."""
LEADERS = {SENT: 2, STORED: 3}
"""Who leads them then."""
CLIENT = "early-bird"
SMALL = JournalConfig(file_size_bytes=1 << 20)
"""The disk in memory copies whole files when they are synced."""


class Late:
    """A node that hears late of what it leads."""

    def __init__(self, partitions: Partitions, patch: pytest.MonkeyPatch, *, until_a_client_comes: bool) -> None:
        self.turned_away = 0
        self._hears_of_clients = until_a_client_comes
        self._held: list[Changes] | None = []
        self._change, self._turn_away = partitions.changed, partitions.turn_away
        patch.setattr(partitions, "changed", self._changed)
        patch.setattr(partitions, "turn_away", self._turned_away)

    def hear(self) -> None:
        held, self._held = self._held or (), None
        for changes in held:
            self._change(changes)

    def _changed(self, changes: Changes) -> None:
        if self._held is None:
            self._change(changes)
        else:
            self._held.append(changes)

    def _turned_away(self, *batch: Any) -> None:
        self._turn_away(*batch)
        self.turned_away += 1
        if self._hears_of_clients:
            self.hear()


class Client:
    """Sends each record in a batch of its own."""

    def __init__(self, cluster: ClusterRig) -> None:
        bootstrap = ",".join(f"{HOST}:{rig.node.port}" for rig in cluster.nodes.values())
        self.producer: Producer = new_producer(
            bootstrap, enable_idempotence=True, linger_ms=0, batch_num_messages=1, client_id=CLIENT
        )
        self.deliveries = Deliveries()
        self._cluster = cluster

    def send(self, partition: int, value: bytes) -> None:
        self.producer.produce(TOPIC, value, partition=partition, on_delivery=self.deliveries)

    async def until_delivered(self, *values: bytes) -> None:
        def are_delivered() -> bool:
            self.producer.poll(0)
            return {message.value() for message in self.deliveries.delivered}.issuperset(values)

        await self._cluster.until(are_delivered)


async def create(cluster: ClusterRig) -> None:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=[1, leader]) for index, leader in LEADERS.items()
    ]
    topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments)
    made = await cluster.any_node.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert made.topics[0].error_code == 0, made
    await cluster.until(lambda: all(TOPIC in rig.node.image.topics for rig in cluster.nodes.values()))


def acknowledge_nothing_of(index: int, patch: pytest.MonkeyPatch) -> None:
    tell = Partition._tell_committed

    def tell_others(self: Partition) -> None:
        if (self.node_id, self.index) != (1, index):
            tell(self)

    patch.setattr(Partition, "_tell_committed", tell_others)


def stop_listening(rig: NodeRig) -> None:
    for connection in rig.node._server.connections:
        if connection.context.client_id == CLIENT:
            connection.hold(CLIENT_IS_SLOW)


def stored(rig: NodeRig, index: int) -> list[list[bytes | None]]:
    """The values in each batch of a log."""
    log = rig.node.partitions.log_of(TOPIC, index)
    data = log.read(0, 1 << 20, upto_offset=log.end_offset, min_one_batch=True) if log.end_offset else b""
    return [[record.value for record in read_records(batch.data)] for batch in iter_batches(data)]


@pytest.mark.pure
def test_what_is_stored_is_not_sent_again_because_other_batches_came_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: ClusterRig) -> None:
        await create(cluster)
        client = Client(cluster)
        for index in (SENT, STORED):
            client.send(index, b"first")
        await client.until_delivered(b"first")
        acknowledge_nothing_of(STORED, monkeypatch)
        for value in (b"a", b"b"):
            client.send(STORED, value)
        expected = [[b"first"], [b"a"], [b"b"]]
        await cluster.until(lambda: all(stored(cluster.nodes[number], STORED) == expected for number in (1, 3)))
        stop_listening(cluster.nodes[1])
        for value in (b"1", b"2", b"3"):
            client.send(SENT, value)

        soon = Late(cluster.nodes[2].node.partitions, monkeypatch, until_a_client_comes=True)
        later = Late(cluster.nodes[3].node.partitions, monkeypatch, until_a_client_comes=False)
        await cluster.nodes.pop(1).node.stop()
        await client.until_delivered(b"1", b"2", b"3")
        later.hear()
        await client.until_delivered(b"a", b"b")

        assert client.deliveries.errors == []
        assert stored(cluster.nodes[2], SENT) == [[b"first"], [b"1"], [b"2"], [b"3"]]
        assert stored(cluster.nodes[3], STORED) == expected
        assert soon.turned_away > 0
        assert later.turned_away > 0

    with_cluster(scenario, journal=SMALL)
