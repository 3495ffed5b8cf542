"""What one task leaves behind for the next in the same process."""

from __future__ import annotations

import gc
import socket

import pytest

from pyspark_ottla.offsets import EARLIEST, READ_COMMITTED, list_offsets
from pyspark_ottla.wire import WireError
from pyspark_ottla.workers import connected
from tests.spark.reading import Topics


def test_connections_are_kept_for_the_next_task(topics: Topics) -> None:
    with connected(topics.bootstrap, 20) as first:
        broker = first.any_broker()
    with connected(topics.bootstrap, 10) as second:
        assert second.any_broker() is broker
        assert second.timeout_s == 10


def test_after_a_failure_there_are_new_ones(topics: Topics) -> None:
    found = []

    def fail() -> None:
        with connected(topics.bootstrap, 20) as first:
            found.append(first.any_broker())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with connected(topics.bootstrap, 20) as second:
        assert second.any_broker() is not found[0]


def test_a_topic_that_was_made_between_two_tasks_is_found(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    with connected(topics.bootstrap, 20) as cluster:
        assert len(cluster.topics([topic])[topic].leaders) == 2
        with pytest.raises(WireError):
            cluster.topics([f"{topic}-later"])
    topics.node.admin().create_topic(f"{topic}-later", partitions=3)
    with connected(topics.bootstrap, 20) as cluster:
        assert len(cluster.topics([f"{topic}-later"])[f"{topic}-later"].leaders) == 3


def test_a_connection_that_was_lost_between_two_tasks_is_made_anew(topics: Topics) -> None:
    topic = topics.create()
    with connected(topics.bootstrap, 20) as cluster:
        cluster.any_broker()._socket.shutdown(socket.SHUT_RDWR)
    with connected(topics.bootstrap, 20) as cluster:
        assert list_offsets(cluster, {(topic, 0): EARLIEST}, READ_COMMITTED) == {(topic, 0): 0}


def test_what_a_worker_has_loaded_is_not_looked_through_after_every_task(topics: Topics) -> None:
    with connected(topics.bootstrap, 20):
        pass
    assert gc.get_freeze_count() > 0
