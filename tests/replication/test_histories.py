"""Whatever happens in whatever order: what was once committed stays, at its place, on whoever leads."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.protocol.messages.fetch import PartitionData
from ottla.replication.partition import Partition
from tests.replication.cluster import Replicas

NODES = st.sampled_from((1, 2, 3))


class Histories(RuleBasedStateMachine):
    """Leaders come and go among those in sync; followers fetch, stop half way, crash, and are cut."""

    @initialize(minimum=st.sampled_from((1, 2)))
    def begin(self, minimum: int) -> None:
        self.replicas = Replicas(3, min_insync_replicas=minimum)
        self.committed: list[bytes | None] = []
        self.number = 0
        self.in_hand: dict[int, PartitionData] = {}

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        values = [b"%d" % (self.number + i) for i in range(count)]
        self.number += count
        self.replicas.append(*values)

    @rule(node=NODES)
    def commit(self, node: int) -> None:
        self.replicas.commit(node)

    @rule(node=NODES, max_bytes=st.sampled_from((1, 150, 10_000)))
    def fetch(self, node: int, max_bytes: int) -> None:
        log = self.replicas.logs[node]
        if node == self.replicas.image.leader or node in self.in_hand or log.end_offset != log.durable_offset:
            return
        data = self.replicas.fetch(node, max_bytes=max_bytes)
        if data is not None:
            self.in_hand[node] = PartitionData(
                partition_index=0,
                error_code=data.error_code,
                high_watermark=data.high_watermark,
                log_start_offset=data.log_start_offset,
                diverging_epoch=data.diverging_epoch,
                records=data.records,
            )

    @rule(node=NODES)
    def take(self, node: int) -> None:
        data = self.in_hand.pop(node, None)
        if data is not None:
            self.replicas.take(node, data)

    @rule(node=NODES)
    def crash(self, node: int) -> None:
        """What was not on disk is lost. It is no longer what it was, so a leader is followed by another."""
        self.in_hand.pop(node, None)
        log = self.replicas.logs[node]
        log.reload(log.durable_offset)
        if node == self.replicas.image.leader:
            self._elect_other(node)

    def _elect_other(self, node: int) -> None:
        others = [other for other in self.replicas.image.isr if other != node]
        self._elect(others[0] if others else node)

    @rule(node=NODES)
    def elect(self, node: int) -> None:
        if node in self.replicas.image.isr:
            self._elect(node)

    def _elect(self, node: int) -> None:
        for replica in self.replicas.image.replicas:
            self.replicas.commit(replica)
        self.in_hand = {}
        self.replicas.elect(node)

    @rule(node=NODES)
    @precondition(lambda self: self.replicas.leader.proposed_isr is None)
    def propose_removal(self, node: int) -> None:
        leader = self.replicas.leader
        if node != leader.node_id and node in leader.isr:
            leader.propose_isr(tuple(member for member in leader.isr if member != node))

    @rule()
    @precondition(lambda self: self.replicas.leader.proposed_isr is None)
    def propose_addition(self) -> None:
        caught_up, self.replicas.caught_up = self.replicas.caught_up, []
        leader = self.replicas.leader
        for node in caught_up[-1:]:
            follower = leader.followers.get(node)
            if follower is not None and node not in leader.isr and _is_in_sync(leader, follower.end_offset):
                leader.propose_isr((*leader.isr, node))

    @rule(is_granted=st.booleans())
    @precondition(lambda self: self.replicas.leader.proposed_isr is not None)
    def decide(self, is_granted: bool) -> None:
        proposed = self.replicas.leader.proposed_isr
        assert proposed is not None
        if is_granted:
            self.replicas.set_isr(*proposed)
        else:
            self.replicas.leader.propose_isr(None)

    @invariant()
    def what_was_committed_stays(self) -> None:
        if not hasattr(self, "replicas"):
            return
        leader = self.replicas.leader
        assert self.replicas.values(leader.node_id)[: len(self.committed)] == self.committed
        if leader.high_watermark > len(self.committed):
            self.committed = self.replicas.values(leader.node_id, upto=leader.high_watermark)

    @invariant()
    def every_in_sync_replica_has_it_on_disk(self) -> None:
        if not hasattr(self, "replicas"):
            return
        for node in self.replicas.image.isr:
            assert self.replicas.logs[node].durable_offset >= len(self.committed)
            assert self.replicas.values(node, upto=len(self.committed)) == self.committed

    def teardown(self) -> None:
        """In the end all agree, once they have fetched what there is."""
        if not hasattr(self, "replicas"):
            return
        self.replicas.commit()
        for node in self.replicas.image.replicas:
            if node != self.replicas.image.leader:
                self.replicas.commit(node)
                self.replicas.copy(node, rounds=40)
        everything = self.replicas.values(self.replicas.image.leader)
        assert all(self.replicas.values(node) == everything for node in self.replicas.image.replicas)


def _is_in_sync(leader: Partition, end_offset: int) -> bool:
    return end_offset >= leader.high_watermark and end_offset >= leader.epoch_start_offset


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
