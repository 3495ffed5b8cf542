"""A batch is killed at every single request that it sends, before it and after its answer, and run again.

What dies is what Spark would lose: everything that is in a process. After that the batch runs again from the start, as
Spark runs it: every row is there once, and no transaction is left open.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.schema import Request
from pyspark_ottla.wire import Broker, Cluster
from tests.spark.reading import Topics
from tests.spark.test_markers import Query

ROWS: tuple[list[str], ...] = (["a", "b"], ["c"], [])
STEPS_MAX = 200
CHANGES = (InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest, OffsetCommitRequest, EndTxnRequest)


class KilledError(BaseException):
    """Nothing that runs can catch and survive this: each further request raises it again."""


class Death:
    """Comes at a step, counted from 1: before a request that changes something, or between it and its answer."""

    def __init__(self, step: int, patched: pytest.MonkeyPatch) -> None:
        self._step, self._steps = step, itertools.count(1)
        self._is_dead = False
        send, receive = Broker.send, Broker.receive

        def mortal_send(broker: Broker, request: Request, version: int | None = None) -> None:
            self._tick(type(request))
            send(broker, request, version)

        def mortal_receive(broker: Broker) -> Any:
            self._tick(broker._waiting[0][0])
            return receive(broker)

        patched.setattr(Broker, "send", mortal_send)
        patched.setattr(Broker, "receive", mortal_receive)

    def _tick(self, request: type[Request]) -> None:
        self._is_dead = self._is_dead or (request in CHANGES and next(self._steps) == self._step)
        if self._is_dead:
            raise KilledError


def run(topics: Topics, like: Query, batch: int) -> None:
    """In new processes, so to speak."""
    with Cluster(topics.bootstrap, timeout_s=20) as cluster:
        query = Query(topics, cluster, like.name, like.topic)
        query.commit(query.run(*ROWS, batch=batch), batch)


def survives(topics: Topics, query: Query, batch: int, step: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the batch was through before its death came."""
    with monkeypatch.context() as patched:
        Death(step, patched)
        try:
            run(topics, query, batch)
        except KilledError:
            return False
    return True


@pytest.mark.parametrize("two_phases", [True, False], ids=["two-phases", "marks"])
def test_a_batch_that_is_killed_anywhere_is_there_once(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, two_phases: bool
) -> None:
    node = request.getfixturevalue("spark_node" if two_phases else "plain_node")
    topics = Topics(node, request.node.name)
    with topics.opened, Cluster(topics.bootstrap, timeout_s=20) as cluster:
        query = Query(topics, cluster)
        for step in range(1, STEPS_MAX):
            done = survives(topics, query, step, step, monkeypatch)
            run(topics, query, step)
            assert query.committed() == sorted(["a", "b", "c"] * step), f"killed at step {step}"
            if done:
                break

    assert 20 < step < STEPS_MAX
    assert query.open() == []


@pytest.mark.parametrize("two_phases", [True, False], ids=["two-phases", "marks"])
def test_an_abort_after_a_death_anywhere_leaves_nothing_open_and_undoes_nothing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, two_phases: bool
) -> None:
    """Spark calls `abort` when the process that commits dies and the driver lives."""
    node = request.getfixturevalue("spark_node" if two_phases else "plain_node")
    topics = Topics(node, request.node.name)
    with topics.opened, Cluster(topics.bootstrap, timeout_s=20) as cluster:
        query = Query(topics, cluster)
        for step in itertools.count(1):
            messages = query.run(["a"], ["b"], batch=step)
            with monkeypatch.context() as patched:
                Death(step, patched)
                try:
                    query.commit(messages, step)
                except KilledError:
                    done = False
                else:
                    done = True
            query.writer.abort(messages, step)
            assert query.open() == [], f"killed at step {step}"
            run_again = query.run(["a"], ["b"], batch=step)
            query.commit(run_again, step)
            assert query.committed() == sorted(["a", "b"] * step), f"killed at step {step}"
            if done:
                break
