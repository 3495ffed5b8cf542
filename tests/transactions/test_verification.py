"""What brokers ask before they let a transaction write (KIP-890)."""

import pytest

from ottla.errors import ErrorCode
from ottla.transactions.transaction import Producer
from tests.transactions.harness import FIRST_PRODUCER_ID, P0, P2, Host


def test_a_partition_is_verified_while_its_transaction_is_open() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0, version=0)
    assert host.shard.verify_partitions("x", producer, frozenset({P0, P2})).response == {
        P0: ErrorCode.NONE,
        P2: ErrorCode.TRANSACTION_ABORTABLE,
    }


@pytest.mark.parametrize(
    ("client", "code"),
    [
        (Producer(7, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Producer(FIRST_PRODUCER_ID, 1), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_others_are_not_verified(client: Producer, code: ErrorCode) -> None:
    host = Host()
    host.add(host.producer(), P0)
    assert host.shard.verify_partitions("x", client, frozenset({P0})).response == {P0: code}


def test_nothing_is_verified_while_markers_are_written_nor_after() -> None:
    host = Host()
    producer = host.producer()
    host.add(producer, P0, version=0)
    host.end(producer, commits=True, version=0)
    verify = host.shard.verify_partitions
    assert verify("x", producer, frozenset({P0})).response == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}
    host.write_markers()
    assert verify("x", producer, frozenset({P0})).response == {P0: ErrorCode.TRANSACTION_ABORTABLE}
