"""Assignors: who reads which partition.

In the classic protocol these run in clients; here they serve members that have none of their own, and tests. All four
are pure functions of the members' subscriptions and the number of partitions of each topic, and do not depend on the
order in which either is given.

Sticky assignments keep what members own as far as balance allows. The cooperative one takes two rebalances to move a
partition: in the first its owner gives it up, in the second another gets it, so that nobody else has to stop reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle

from ottla.types import TopicPartition
from ottla.values import value


@value
class Subscription:
    """What a member wants to read, and what it read until now."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    """In which it got what it owns: of two members that claim one partition, the later is right."""
    instance_id: str | None = None


Members = Mapping[str, Subscription]
PartitionCounts = Mapping[str, int]
Assignment = dict[str, list[TopicPartition]]

Assignor = Callable[[Members, PartitionCounts], Assignment]


def range_assignor(members: Members, partitions: PartitionCounts) -> Assignment:
    """Topic by topic, a run of neighbours to each subscriber; the first ones get one more where it does not divide."""
    assignment: Assignment = {member: [] for member in members}
    for topic, count, subscribers in _wanted_topics(members, partitions):
        share, extra = divmod(count, len(subscribers))
        start = 0
        for place, member in enumerate(subscribers):
            end = start + share + (place < extra)
            assignment[member] += [TopicPartition(topic, index) for index in range(start, end)]
            start = end
    return assignment


def round_robin_assignor(members: Members, partitions: PartitionCounts) -> Assignment:
    """All partitions in turn, over all members, passing over those who do not subscribe to the topic."""
    assignment: Assignment = {member: [] for member in members}
    turns = cycle(_in_order(members))
    for topic, count, subscribers in _wanted_topics(members, partitions):
        for index in range(count):
            member = next(turn for turn in turns if turn in subscribers)
            assignment[member].append(TopicPartition(topic, index))
    return assignment


def sticky_assignor(members: Members, partitions: PartitionCounts) -> Assignment:
    """As even as subscriptions allow, with as much as possible left where it is."""
    balance = _Balance(members, partitions)
    for member, owned in _claims(members, partitions).items():
        balance.give(member, owned)
    balance.give_out_rest()
    balance.level()
    return {member: sorted(owned) for member, owned in balance.owned.items()}


def cooperative_sticky_assignor(members: Members, partitions: PartitionCounts) -> Assignment:
    """The sticky assignment, without what another member still has to give up first."""
    holders = _holders(members)
    return {
        member: [partition for partition in given if holders.get(partition, {member}) == {member}]
        for member, given in sticky_assignor(members, partitions).items()
    }


ASSIGNORS: Mapping[str, Assignor] = {
    "range": range_assignor,
    "roundrobin": round_robin_assignor,
    "sticky": sticky_assignor,
    "cooperative-sticky": cooperative_sticky_assignor,
}
"""By the names under which clients know them."""


def _in_order(members: Members) -> list[str]:
    """Static members first and by instance id, so that a restart, which changes the member id, changes nothing else."""
    return sorted(members, key=lambda member: _place(member, members[member].instance_id))


def _place(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)


def _wanted_topics(members: Members, partitions: PartitionCounts) -> Iterable[tuple[str, int, Mapping[str, None]]]:
    """Each topic that exists and somebody wants, by name, with its subscribers in order."""
    subscribers: dict[str, dict[str, None]] = {}
    for member in _in_order(members):
        for topic in members[member].topics:
            subscribers.setdefault(topic, {})[member] = None
    return [(topic, partitions[topic], subscribers[topic]) for topic in sorted(subscribers.keys() & partitions.keys())]


def _claims(members: Members, partitions: PartitionCounts) -> dict[str, list[TopicPartition]]:
    """What each member may keep: it still wants it, it still exists, and nobody got it later."""
    owners: dict[TopicPartition, str] = {}
    for member in _in_order(members):
        subscription = members[member]
        for partition in subscription.owned:
            rival = owners.get(partition)
            is_newer = rival is None or members[rival].generation < subscription.generation
            if is_newer and partition.topic in subscription.topics:
                owners[partition] = member
    kept: dict[str, list[TopicPartition]] = {}
    for partition, member in owners.items():
        if 0 <= partition.partition < partitions.get(partition.topic, 0):
            kept.setdefault(member, []).append(partition)
    return kept


def _holders(members: Members) -> dict[TopicPartition, set[str]]:
    """Who may be reading each partition now: of those who say that they own it, the ones who got it last."""
    holders: dict[TopicPartition, set[str]] = {}
    for member, subscription in sorted(members.items(), key=lambda item: item[1].generation):
        for partition in subscription.owned:
            rivals = holders.setdefault(partition, set())
            if any(members[rival].generation < subscription.generation for rival in rivals):
                rivals.clear()
            rivals.add(member)
    return holders


class _Balance:
    """An assignment that is being made."""

    def __init__(self, members: Members, partitions: PartitionCounts) -> None:
        self.owned: dict[str, set[TopicPartition]] = {member: set() for member in _in_order(members)}
        self._partitions = {
            TopicPartition(topic, index): None
            for topic, count, _ in _wanted_topics(members, partitions)
            for index in range(count)
        }
        self._subscribers = {topic: list(who) for topic, _, who in _wanted_topics(members, partitions)}

    def give(self, member: str, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.owned[member].add(partition)
            self._partitions.pop(partition)

    def give_out_rest(self) -> None:
        """Those with the fewest takers first: the others can still be used to make up for them."""
        for partition in sorted(self._partitions, key=lambda each: (len(self._subscribers[each.topic]), each)):
            self.owned[self._least_loaded(partition.topic)].add(partition)
        self._partitions.clear()

    def level(self) -> None:
        """Move one partition at a time from who has more to who has at least two fewer, until there is none to move.

        Each move makes the sum of the squared loads smaller, so this ends.
        """
        while sum(map(self._relieve, sorted(self.owned, key=lambda member: -len(self.owned[member])))):
            pass

    def _relieve(self, member: str) -> int:
        """How many partitions others could take over."""
        owned = self.owned[member]
        before = len(owned)
        for partition in sorted(owned, reverse=True):
            taker = self._least_loaded(partition.topic)
            if len(self.owned[taker]) < len(owned) - 1:
                owned.remove(partition)
                self.owned[taker].add(partition)
        return before - len(owned)

    def _least_loaded(self, topic: str) -> str:
        return min(self._subscribers[topic], key=lambda member: len(self.owned[member]))
