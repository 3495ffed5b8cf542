"""Topics of a run: each workload writes to new ones and deletes them, save where there are thousands of partitions."""

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


@contextmanager
def kept_topic(server: Server, prefix: str, partitions: int) -> Iterator[tuple[str, list[int]]]:
    """The same for each repetition, made by the first and left there.

    A file system does not like to give away again what was deleted a minute ago: ext4 looks at every inode of that kind
    before it takes another, so that making 10,000 partitions after 10,000 were deleted takes a hundred times as long,
    and whoever is measured next pays for the rest of it.
    """
    if prefix not in server.kept_topics:
        topic = new_name(prefix)
        with WireClient(server.port) as client:
            client.create_topic(topic, partitions=partitions, replicas=server.replicas)
        server.kept_topics[prefix] = topic
    topic = server.kept_topics[prefix]
    yield topic, wait_for_leaders(server.port, topic)


def listed(numbers: Sequence[int]) -> str:
    """As the drivers take them."""
    return ",".join(map(str, numbers))
