"""Three nodes, two writers and a run of bad weather: nothing acknowledged is lost, doubled, moved or reordered.

`MINUTES` makes it long, `SEED` gives the dice of an earlier run. Without `MINUTES` a few kinds of weather come once.
"""

import contextlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.network import Network, why_not
from tests.chaos.weather import (
    ANYWHERE,
    NODES,
    PARTITIONS,
    TOPIC,
    WITH_NETWORK,
    Kind,
    Weather,
    cut_off_controller,
    disk_fails,
    disk_full,
    hears_nobody,
    kill_controller,
    pause,
)
from tests.chaos.writers import Writers, copies_that_differ
from tests.programs import needs
from tests.robustness.raw_client import create_topic

MINUTES = float(os.environ.get("MINUTES", "0"))
SEED = int(os.environ.get("SEED", "0")) or random.SystemRandom().randint(1, 10**6)
SHORT: tuple[Kind, ...] = (kill_controller, cut_off_controller, pause, disk_full, hears_nobody, disk_fails)

pytestmark = needs("cc")


def forecast(weather: Weather, kinds: tuple[Kind, ...]) -> Iterator[Kind]:
    """Every kind once, or by chance for as long as was asked for."""
    if not MINUTES:
        yield from weather.dice.sample(kinds, len(kinds))
        return
    deadline = time.monotonic() + MINUTES * 60
    while time.monotonic() < deadline:
        yield weather.dice.choice(kinds)


@pytest.mark.timeout(MINUTES * 60 + 900)
def test_nothing_acknowledged_is_lost_in_any_weather(tmp_path: Path) -> None:
    reason = why_not()
    kinds = ANYWHERE + WITH_NETWORK if MINUTES else SHORT
    if reason is not None:
        kinds = tuple(kind for kind in kinds if kind not in WITH_NETWORK)
    print(f"seed {SEED}" + (f"; no cuts: {reason}" if reason else ""))
    with contextlib.ExitStack() as stack:
        network = None if reason else stack.enter_context(Network(NODES))
        weather = Weather(tmp_path, network, SEED)
        cluster = stack.enter_context(weather.cluster)
        create_topic(cluster.node(1).bootstrap, TOPIC, partitions=PARTITIONS, replicas=NODES)
        writers = Writers(cluster.bootstrap)
        stack.callback(writers.stop)
        for kind in forecast(weather, kinds):
            before = writers.acknowledged
            what = kind(weather)
            weather.clear_up(writers.producers[0])
            print(f"{time.strftime('%H:%M:%S')} {what}: {writers.acknowledged - before} writes meanwhile")
        assert writers.stop() == [], f"seed {SEED}\n{cluster.logs()}"
        assert writers.check(cluster.bootstrap) == [], f"seed {SEED}\n{cluster.logs()}"
        weather.clear_up(writers.producers[0])
        for node in cluster.nodes.values():
            assert node.stop() == 0, node.log()
        assert copies_that_differ([node.data_dir for node in cluster.nodes.values()]) == [], f"seed {SEED}"
        assert writers.acknowledged > 0
