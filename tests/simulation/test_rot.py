"""A bit that has flipped on the disk: readers are told, and never given another record than the one that was sent."""

import pytest

from ottla.protocol.records import HEAD, iter_batches
from ottla.testing.checkers import SameOffsets
from ottla.testing.history import Anomaly, Poll
from ottla.testing.sim_reader import SimReader
from ottla.testing.simulation import TOPIC, SimulatedCluster, Workload, check
from ottla.types import TopicPartition
from tests.simulation.seeds import seeds

PARTITION = TopicPartition(TOPIC, 0)


@pytest.mark.parametrize("seed", seeds(6))
def test_rot_in_a_log_is_never_served_as_a_record(seed: int) -> None:
    with SimulatedCluster(seed=seed) as cluster:
        cluster.run(Workload.produce_and_consume(producers=1, partitions=1), virtual_seconds=3)
        rot(cluster)
        reader = cluster.client("reader")
        reader.start(SimReader(reader, "reader", {PARTITION: 0}).run)
        cluster.world.run_for(10)

    history = cluster.history
    told = history.of(Anomaly, lambda anomaly: anomaly.client == "reader")
    seen = sum(len(poll.records) for poll in history.of(Poll, lambda poll: poll.client.startswith("reader.")))
    assert check(history, SameOffsets) == []
    assert told or seen < len(history.final[PARTITION])


def rot(cluster: SimulatedCluster) -> None:
    """Flip a bit of the first segment while the node is down, somewhere in what a batch's checksum covers."""
    node = cluster.nodes[0]
    node.restart_in_order()
    cluster.world.run_until(lambda: not node.machine.is_running, deadline=cluster.world.now + 10)
    disk, dice = node.machine.disk, cluster.world.dice("rot")
    path = f"{TOPIC}-0/00000000000000000000.log"
    batches = list(iter_batches(disk.open(path).pread(disk.size(path), 0)))
    chosen = dice.randrange(len(batches))
    start = sum(batch.size_bytes for batch in batches[:chosen])
    byte = start + dice.randrange(HEAD.size, batches[chosen].size_bytes)
    disk.flip_bit(path, byte * 8 + dice.randrange(8))
    cluster.world.run_until(lambda: node.is_serving, deadline=cluster.world.now + 10)
