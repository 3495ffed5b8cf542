"""Compaction under every fault: each record has a key of its own, so whatever a log loses was lost by mistake.

All topics are compacted all the time, those of groups and transactions too, where keys do come again.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ottla.config import COMPACT, BrokerConfig, CleanerConfig
from ottla.protocol.records import Record
from ottla.storage.compaction_swap import Swap
from ottla.testing import sim_cluster, sim_config, sim_producer, sim_transactions
from ottla.testing.checkers import EVERYTHING, SameReplicas
from ottla.testing.simulation import Faults, Workload, simulate
from ottla.testing.transaction_checkers import TRANSACTION_RULES
from tests.simulation.seeds import seeds

SEGMENT_BYTES = 2_000
TRANSACTIONS = Workload(partitions=3, producers=1, consumers=1, members=1, transactional=2)


def compacting(number: int, host: str, dice: Random, shared: sim_config.ClusterSettings | None) -> BrokerConfig:
    config = sim_config.node_config(number, host, dice, shared)
    return replace(
        config,
        cleaner=CleanerConfig(backoff_ms=100),
        storage=replace(config.storage, recovery_checkpoint_interval_ms=100),
        log=replace(
            config.log,
            cleanup_policy=frozenset({COMPACT}),
            segment_bytes=SEGMENT_BYTES,
            min_cleanable_dirty_ratio=0.01,
            delete_retention_ms=1_000,
            file_delete_delay_ms=100,
        ),
        groups=replace(config.groups, offsets_topic_segment_bytes=SEGMENT_BYTES),
        transactions=replace(config.transactions, transaction_state_log_segment_bytes=SEGMENT_BYTES),
    )


def keyed(value: bytes, timestamp_ms: int) -> Record:
    return Record(key=value, value=value, timestamp_ms=timestamp_ms)


@pytest.fixture(autouse=True)
def swaps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Swap]]:
    """All topics are compacted; what took another's place is noted."""
    found: list[Swap] = []
    place = Swap._place_logs

    def noted(swap: Swap) -> Iterator[None]:
        found.append(swap)
        return place(swap)

    monkeypatch.setattr(Swap, "_place_logs", noted)
    monkeypatch.setattr(sim_cluster, "node_config", compacting)
    for module in (sim_producer, sim_transactions):
        monkeypatch.setattr(module, "Record", keyed)
    yield found
    assert found, "nothing was compacted"


def run(seed: int, workload: Workload, *checkers: Any, **options: Any) -> None:
    simulate(seed, workload, *checkers, virtual_seconds=20, **options)


@pytest.mark.parametrize("seed", seeds(4))
def test_a_node_loses_nothing_that_it_should_keep(seed: int) -> None:
    run(seed, Workload.produce_and_consume(producers=2, partitions=3), nodes=1, faults=Faults.all())


@pytest.mark.parametrize("seed", seeds(4))
def test_transactions_stay_whole(seed: int) -> None:
    run(seed, TRANSACTIONS, *EVERYTHING, *TRANSACTION_RULES, nodes=1, faults=Faults.all())


@pytest.mark.parametrize("seed", seeds(4))
def test_a_cluster_whose_replicas_compact_each_for_itself_agrees(seed: int) -> None:
    """In records, that is: each has batches of its own."""
    rules = [rule for rule in EVERYTHING if rule is not SameReplicas]
    run(seed, TRANSACTIONS, *rules, *TRANSACTION_RULES, nodes=3, faults=Faults.cluster())
