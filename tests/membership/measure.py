"""The figures of docs/decisions/0011-gossip.md, in virtual time and from seeds: the same on every machine.

python -m tests.membership.measure traffic      packets and bytes per second as the cluster grows
python -m tests.membership.measure detection    how soon a dead member is suspected and declared failed
python -m tests.membership.measure shuffled     the same with a shuffled order of probes alone, without the successor
python -m tests.membership.measure joining      how soon nodes that start together know each other
python -m tests.membership.measure healing      how soon two halves do, after a partition
python -m tests.membership.measure loss         suspicions and failures that are wrong, by the loss of packets
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from unittest.mock import patch

from ottla.membership import Change, Load, MemberChanged
from ottla.membership.roster import View
from tests.membership.simulation import Simulation, Weather, formed

SIZES = (3, 10, 30, 100)
SECOND_MS = 1_000


def traffic() -> None:
    """A quiet cluster in which everybody's load changes all the time."""
    print("| nodes | packets/s sent per node | bytes/s sent per node | same without load figures |\n|---|---|---|---|")
    for size in (3, 5, 10, 30, 100):
        with_load, without = _traffic_of(size, changing_load=True), _traffic_of(size, changing_load=False)
        print(f"| {size} | {with_load[0]:.1f} | {with_load[1]:,.0f} | {without[1]:,.0f} |")


def _traffic_of(size: int, *, changing_load: bool, seconds: int = 120) -> tuple[float, float]:
    simulation = formed(1, size)
    _run(simulation, 20, changing_load)
    packets, sent_bytes = simulation.packets, simulation.bytes
    _run(simulation, seconds, changing_load)
    node_seconds = size * seconds
    return (simulation.packets - packets) / node_seconds, (simulation.bytes - sent_bytes) / node_seconds


def _run(simulation: Simulation, seconds: int, changing_load: bool) -> None:
    for second in range(seconds):
        for host in simulation.up if changing_load else ():
            simulation[host].set_load(Load(10**8 + second, 10**8, 10**4, 10**3, 300))
        simulation.run(SECOND_MS)


def detection() -> None:
    print("| nodes | deaths | first suspected: median, slowest | known to all | declared failed by all |")
    print("|---|---|---|---|---|")
    for size, deaths in zip(SIZES, (200, 100, 40, 20), strict=True):
        runs = [_death(seed, size) for seed in range(deaths)]
        columns = [_median_and_slowest([run[column] for run in runs]) for column in range(3)]
        print(f"| {size} | {deaths} | {' | '.join(columns)} |")


def _death(seed: int, size: int) -> tuple[int, int, int]:
    simulation = formed(seed, size)
    simulation.run(simulation.random.randint(1, 3_000))
    victim = simulation.random.randrange(size)
    died_ms = simulation.now_ms
    simulation.crash(victim)
    simulation.run(30 * SECOND_MS)
    suspected = simulation.times(Change.SUSPECTED, victim).values()
    failed = simulation.times(Change.FAILED, victim).values()
    return min(suspected) - died_ms, max(suspected) - died_ms, max(failed) - died_ms


def shuffled() -> None:
    print("| nodes | deaths | first suspected: median, slowest | after more than a second |\n|---|---|---|---|")
    with patch.object(View, "successor", None):
        for size, deaths in ((10, 200), (100, 30)):
            times = [_death(seed, size)[0] for seed in range(deaths)]
            late = sum(time > SECOND_MS for time in times)
            print(f"| {size} | {deaths} | {_median_and_slowest(times)} | {late} |")


def joining() -> None:
    print("| nodes | all start at once with one seed: median, slowest | packets per node |\n|---|---|---|")
    for size, runs in zip(SIZES, (50, 20, 10, 5), strict=True):
        times, packets = [], 0
        for seed in range(runs):
            simulation = Simulation(seed)
            for node_id in range(size):
                simulation.start(node_id, [0])
            times.append(simulation.run_until_converged(60 * SECOND_MS, step_ms=10) or 60 * SECOND_MS)
            packets += simulation.packets
        print(f"| {size} | {_median_and_slowest(times)} | {packets / runs / size:.0f} |")


def healing() -> None:
    print("| nodes | two halves for 60 s, then healed: median, slowest |\n|---|---|")
    for size, runs in zip(SIZES, (30, 20, 10, 3), strict=True):
        times = []
        for seed in range(runs):
            simulation = formed(seed, size)
            simulation.split(range(size // 2), range(size // 2, size))
            simulation.run(60 * SECOND_MS)
            simulation.heal()
            times.append(simulation.run_until_converged(60 * SECOND_MS, step_ms=10) or 60 * SECOND_MS)
        print(f"| {size} | {_median_and_slowest(times)} |")


def loss() -> None:
    print("| nodes | loss | node-hours | wrong suspicions per node and hour | wrong failures | bytes/s per node |")
    print("|---|---|---|---|---|---|")
    for size, hours in ((3, 20.0), (10, 2.0), (30, 0.3), (100, 0.03)):
        for lost in (0.01, 0.05, 0.2):
            _loss_of(size, lost, hours)


def _loss_of(size: int, lost: float, hours: float) -> None:
    weather = Weather(loss=lost, duplication=0.05, delay_ms=(0, 40))
    simulation = formed(1, size, weather)
    sent_bytes, milliseconds = simulation.bytes, int(hours * 3_600 * SECOND_MS)
    suspicions, failures = 0, 0
    for _ in range(0, milliseconds, 10 * SECOND_MS):
        simulation.run(10 * SECOND_MS)
        changes = [told.event for told in simulation.history if isinstance(told.event, MemberChanged)]
        suspicions += len({(event.member.node_id, event.member.incarnation) for event in changes if _is_bad(event)})
        failures += sum(event.change == Change.FAILED for event in changes)
        simulation.history.clear()
    rate = suspicions / size / hours
    per_second = (simulation.bytes - sent_bytes) / size / (milliseconds / SECOND_MS)
    print(f"| {size} | {lost:.0%} | {size * hours:.0f} | {rate:,.0f} | {failures} | {per_second:,.0f} |", flush=True)


def _is_bad(event: MemberChanged) -> bool:
    return event.change in (Change.SUSPECTED, Change.FAILED)


def _median_and_slowest(times_ms: Sequence[int]) -> str:
    ordered = sorted(times_ms)
    return f"{ordered[len(ordered) // 2]:,} ms, {ordered[-1]:,} ms"


MEASUREMENTS: dict[str, Callable[[], None]] = {
    "traffic": traffic,
    "detection": detection,
    "shuffled": shuffled,
    "joining": joining,
    "healing": healing,
    "loss": loss,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or MEASUREMENTS:
        MEASUREMENTS[name]()
