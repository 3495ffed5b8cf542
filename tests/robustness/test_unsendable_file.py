"""What the system sends readers from the files themselves: the right bytes, and a clear end where it can't."""

import os

import pytest

from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.protocol.record import Record
from ottla.protocol.records import build_batch, iter_batches
from tests.interop.node_process import NodeProcess
from tests.interop.waiting import eventually
from tests.robustness.raw_client import RawClient, create_topic, produce

TOPIC = "large"
VALUES = [bytes([number]) * 900_000 for number in range(9)]
ASKED_BYTES = 4 << 20
CUT_AT = 1 << 20
ANSWERED = 8


def fetch(client: RawClient, offset: int = 0) -> PartitionData:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=ASKED_BYTES)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=ASKED_BYTES, topics=[FetchTopic(topic=TOPIC, partitions=[asked])]
    )
    return client.call(request, ANSWERED, FetchResponse).responses[0].partitions[0]


def test_a_file_that_cannot_be_sent_ends_one_connection_and_from_then_on_it_is_read(node: NodeProcess) -> None:
    node.start()
    create_topic(node.bootstrap, TOPIC)
    batches = [build_batch([Record(value=value, timestamp_ms=1_700_000_000_000)]) for value in VALUES]
    with RawClient(node.bootstrap) as client:
        for batch in batches:
            assert produce(client, TOPIC, batch).error_code == 0
        (segment,) = node.data_dir.glob(f"**/{TOPIC}-0/*.log")
        records = received(fetch(client))
        assert records == segment.read_bytes()[:ASKED_BYTES]
        assert len(list(iter_batches(records[: sum(map(len, batches[:4]))]))) == 4

        os.truncate(segment, CUT_AT)
        with pytest.raises(AssertionError, match="closed the connection"):
            fetch(client)
    eventually(lambda: "since a file can't be sent" in node.log(), within_s=10, what="a line that says so")
    with RawClient(node.bootstrap) as client:
        assert len(received(fetch(client))) == CUT_AT
    assert node.log().count("is read from now on, and not sent from") == 1


def received(data: PartitionData) -> bytes:
    assert isinstance(data.records, memoryview)
    return bytes(data.records)
