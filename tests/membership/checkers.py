"""What must be true of a history, whatever the weather. Each checker says in words where it is not."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.membership import Change, MemberChanged
from tests.membership.simulation import Simulation

SUSPECTED_WITHIN_MS = 1_000
FORGOTTEN_AFTER_MS = 30_000


def no_false_failures(simulation: Simulation) -> Iterator[str]:
    """Nobody is declared failed who did not crash."""
    for happened in simulation.history:
        event = happened.event
        if not isinstance(event, MemberChanged) or event.change != Change.FAILED:
            continue
        if event.member.node_id not in simulation.crashed:
            yield f"{happened.at_ms} ms: {happened.observer} says that {event.member.node_id} failed, which is alive"


def knowledge_only_grows(simulation: Simulation) -> Iterator[str]:
    """What an observer believes of a member is never replaced by something older: an earlier process, a lower
    incarnation, or a better status within one incarnation."""
    believed: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for happened in simulation.history:
        if isinstance(happened.event, MemberChanged):
            member = happened.event.member
            key = (happened.observer, happened.observer_run, member.node_id)
            now = (member.run_id, member.incarnation, int(member.status))
            if now < believed.get(key, now):
                yield f"{happened.at_ms} ms: {happened.observer} goes back from {believed[key]} to {now} of {key[2]}"
            believed[key] = now


def the_dead_stay_dead(simulation: Simulation) -> Iterator[str]:
    """Half a minute after a crash nobody is told any more that the node is there, if it was not started again."""
    for happened in simulation.history:
        event = happened.event
        if not isinstance(event, MemberChanged) or event.change not in (Change.ALIVE, Change.JOINED):
            continue
        node_id = event.member.node_id
        if happened.at_ms - simulation.crashed.get(node_id, happened.at_ms) > FORGOTTEN_AFTER_MS:
            yield f"{happened.at_ms} ms: {happened.observer} says that {node_id} is {event.change}, which is dead"


def the_dead_are_missed(simulation: Simulation, node_id: int, failed_within_ms: int) -> Iterator[str]:
    """Somebody suspects a crashed node within a second, and everybody declares it failed in bounded time."""
    crashed_ms = simulation.crashed[node_id]
    suspected = simulation.times(Change.SUSPECTED, node_id)
    failed = simulation.times(Change.FAILED, node_id)
    if not suspected or min(suspected.values()) - crashed_ms >= SUSPECTED_WITHIN_MS:
        yield f"{node_id} is first suspected at {min(suspected.values(), default=None)} ms, crashed at {crashed_ms} ms"
    for host in simulation.up:
        if failed.get(host, crashed_ms + failed_within_ms) - crashed_ms >= failed_within_ms:
            yield f"{host} declares {node_id} failed at {failed.get(host)} ms, crashed at {crashed_ms} ms"


def everybody_agrees(simulation: Simulation) -> Iterator[str]:
    """Everybody who is up believes of everybody who is up that they are alive, with the same incarnation."""
    truth = {simulation[host].me.node_id: simulation[host].me.incarnation for host in simulation.up}
    for host in simulation.up:
        seen = {member.node_id: member.incarnation for member in simulation[host].members() if member.is_live}
        if seen != truth:
            yield f"{host} sees {seen}, there are {truth}"


def always(simulation: Simulation) -> list[str]:
    """The complaints of all checkers that hold at any time."""
    return [*knowledge_only_grows(simulation), *the_dead_stay_dead(simulation)]
