"""The map of a large cluster is made without holding up the event loop."""

import time

from ottla.console.pages.cluster import CELLS_MAX, render
from ottla.console.snapshot import ClusterNow, PartitionNow, Rates, TopicNow
from ottla.console.watching import Moment
from tests.console.test_snapshot import broker

BROKERS = 50
PARTITIONS = 5_000
CPU_S_MAX = 1.0


def large() -> Moment:
    partitions = tuple(
        PartitionNow(
            topic="orders",
            index=index,
            leader=index % BROKERS,
            replicas=tuple((index + step) % BROKERS for step in range(3)),
            in_sync=tuple((index + step) % BROKERS for step in range(3)),
            is_moving=False,
            start=0,
            end=10,
            sizes={},
        )
        for index in range(PARTITIONS)
    )
    now = ClusterNow(
        at_ms=0,
        cluster_id="c",
        controller=1,
        quorum=None,
        brokers=tuple(broker(number, 10) for number in range(BROKERS)),
        topics=(TopicNow(name="orders", is_internal=False, partitions=partitions),),
    )
    return Moment(now=now, rates=Rates(), past=())


def test_fifty_brokers_are_drawn_in_one_pass() -> None:
    moment = large()
    began = time.process_time()
    shown = render(moment)

    assert shown.count('class="broker"') == BROKERS
    cells = shown.count('<span class="cell"') + shown.count('<span class="cell leader"')
    assert cells == CELLS_MAX
    assert f"and {3 * PARTITIONS // BROKERS - CELLS_MAX // BROKERS} more" in shown
    assert time.process_time() - began < CPU_S_MAX
