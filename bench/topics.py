"""Topics of a run: each workload writes to new ones and deletes them."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.servers import Server
from bench.wire import WireClient, wait_for_leaders

_numbers = itertools.count()


def new_name(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}"


@contextmanager
def new_topic(server: Server, prefix: str, partitions: int) -> Iterator[tuple[str, list[int]]]:
    """A new topic, and the port of the leader of each of its partitions."""
    topic = new_name(prefix)
    with WireClient(server.port) as client:
        client.create_topic(topic, partitions=partitions, replicas=server.replicas)
        try:
            yield topic, wait_for_leaders(server.port, topic)
        finally:
            client.delete_topics([topic])


def listed(numbers: Sequence[int]) -> str:
    """As the drivers take them."""
    return ",".join(map(str, numbers))
