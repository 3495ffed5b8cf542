"""What should move, where to, and why.

A plan is a function of the image alone. It is sticky: it starts from where everything is and changes only what has a
reason, in this order.

1. **Drain.** Brokers that are to go, that are gone for good or not registered any more are replaced, replica by
   replica, by the open broker that crowds racks and hosts least, then by the one that holds least.
2. **Lacking.** The cluster's own topics get the replicas that there were no brokers for when they were made.
3. **Mend.** Replicas that share a rack or a host although they need not are taken apart.
4. **Fill.** From brokers that hold most to those that hold least, one replica at a time, until the shares are even. A
   replica moves only if that crowds no rack and no host more than before. Of several, the receiver takes the one that
   it prefers by rendezvous hashing, a topic first of which the giver holds more than it; and a preferred leader if it
   leads less than its share.

By itself (`Scope.AUTOMATIC`) the cluster mends and fills only in favour of brokers that have joined: whoever places
replicas by hand finds them where he put them. On demand (`Scope.ALL`) it does so for all brokers, and leaves alone a
difference of less than a twentieth.

Every step lowers a measure (replicas on leaving brokers, crowding, squares of the counts) and raises none before it,
so a plan ends, and a plan of what a plan leads to is empty.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import chain, islice
from math import ceil, floor, inf

from ottla.metadata.balancer_table import Held, Table
from ottla.metadata.image import MetadataImage
from ottla.metadata.placement import Seat, crowding, least_crowded, rank
from ottla.types import TopicId
from ottla.values import value

SLACK = 0.05
"""The part of the average by which brokers may differ before anything moves because of that."""


class Scope(Enum):
    AUTOMATIC = auto()
    ALL = auto()


@value
class Move:
    """A partition gets other replicas."""

    topic: str
    topic_id: TopicId
    partition: int
    before: tuple[int, ...]
    replicas: tuple[int, ...]
    """Preferred leader first."""
    reason: str

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.before)

    @property
    def removed(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.before if replica not in self.replicas)


@value
class Blocked:
    """A replica should go and can't."""

    topic: str
    partition: int
    broker_id: int
    reason: str


@value
class Plan:
    moves: tuple[Move, ...]
    blocked: tuple[Blocked, ...]


def plan_moves(
    image: MetadataImage,
    *,
    scope: Scope,
    limit: int | None = None,
    replication_factors: Mapping[str, int] | None = None,
) -> Plan:
    """At most `limit` moves. `replication_factors`: how many replicas the cluster's own topics should have."""
    planner = _Planner(Table(image), scope)
    steps = planner.steps(replication_factors or {})
    touched: dict[int, Held] = {}
    for held in steps:
        touched.setdefault(id(held), held)
        if limit is not None and len(touched) >= limit:
            break
    return Plan(moves=tuple(map(_move, touched.values())), blocked=tuple(planner.blocked))


def _move(held: Held) -> Move:
    return Move(
        topic=held.topic.name,
        topic_id=held.topic.topic_id,
        partition=held.index,
        before=held.partition.replicas,
        replicas=held.replicas,
        reason="; ".join(held.reasons),
    )


class _Planner:
    def __init__(self, table: Table, scope: Scope) -> None:
        self._table = table
        self._scope = scope
        self._least: dict[int, tuple[int, int]] = {}
        self.blocked: list[Blocked] = []

    def steps(self, replication_factors: Mapping[str, int]) -> Iterator[Held]:
        """Each partition as something is planned for it."""
        yield from self._drain()
        yield from self._lacking(replication_factors)
        receivers = self._table.open if self._scope is Scope.ALL else self._table.joining
        if receivers:
            yield from self._even_out(receivers)

    def _even_out(self, receivers: Sequence[int]) -> Iterator[Held]:
        """One thing that moves may be what lets another move, so this ends only when nothing does."""
        exact = self._scope is Scope.AUTOMATIC
        has_moved = True
        while has_moved:
            has_moved = False
            for held in chain(self._mend(receivers), _Filling(self._table, receivers, exact=exact).steps()):
                has_moved = True
                yield held

    # Drain, and what is lacking

    def _drain(self) -> Iterator[Held]:
        for broker_id in sorted(self._table.leaving):
            for held in self._table.by_broker[broker_id]:
                if broker_id in held.replicas and self._replaced(held, broker_id):
                    yield held

    def _replaced(self, held: Held, broker_id: int) -> bool:
        if not held.can_be_copied:
            self._block(held, broker_id, "nobody leads it, so there is nothing to copy from")
            return False
        best = self._best(held, without=broker_id)
        if best is None:
            self._block(held, broker_id, "no other broker is left for it")
            return False
        self._table.replace(held, broker_id, best, self._why_drained(broker_id))
        return True

    def _why_drained(self, broker_id: int) -> str:
        broker = self._table.image.brokers.get(broker_id)
        if broker is None:
            return f"broker {broker_id} is not registered any more"
        return f"broker {broker_id} is {'gone' if broker.fenced else 'to be drained'}"

    def _block(self, held: Held, broker_id: int, reason: str) -> None:
        self.blocked.append(Blocked(topic=held.topic.name, partition=held.index, broker_id=broker_id, reason=reason))

    def _lacking(self, replication_factors: Mapping[str, int]) -> Iterator[Held]:
        for held in self._table.partitions:
            wanted = replication_factors.get(held.topic.name)
            if wanted is None or not held.is_free or len(held.replicas) >= wanted:
                continue
            while len(held.replicas) < wanted and (best := self._best(held)) is not None:
                self._table.replace(held, None, best, f"it shall have {wanted} replicas")
            if held.reasons:
                yield held

    def _best(self, held: Held, without: int | None = None) -> int | None:
        """The open broker that fits best: little crowded, holding the data already, little loaded."""
        table = self._table
        staying = table.seats_of(tuple(replica for replica in held.replicas if replica != without))

        def cost(broker_id: int) -> tuple[object, ...]:
            return (
                crowding([*staying, table.seats[broker_id]]),
                broker_id not in held.partition.replicas,
                table.counts[broker_id],
                table.in_topic[held.topic.topic_id, broker_id],
                -rank(held.hash, broker_id),
            )

        return min((broker_id for broker_id in table.open if broker_id not in held.replicas), key=cost, default=None)

    # Mend

    def _mend(self, receivers: Sequence[int]) -> Iterator[Held]:
        for held in self._table.partitions:
            if held.is_free and self._mended(held, receivers):
                yield held

    def _mended(self, held: Held, receivers: Sequence[int]) -> bool:
        """Take replicas apart for as long as that helps."""
        table, before = self._table, held.replicas
        while (now := crowding(table.seats_of(held.replicas))) > self._least_crowding(len(held.replicas)):
            swaps = [
                (crowding(_swapped(table, held, old, new)), table.counts[new], -table.counts[old], old, new)
                for new in receivers
                if new not in held.replicas
                for old in held.replicas
                if old in table.open
            ]
            best = min(swaps, default=None)
            if best is None or best[0] >= now:
                break
            shared = "rack" if best[0][0] < now[0] else "host"
            table.replace(held, best[3], best[4], f"two of its replicas were on one {shared}")
        return held.replicas != before

    def _least_crowding(self, replicas: int) -> tuple[int, int]:
        """What can't be bettered with this many replicas on the open brokers."""
        if replicas not in self._least:
            seats = [self._table.seats[broker_id] for broker_id in self._table.open]
            self._least[replicas] = crowding(list(islice(least_crowded(seats), replicas)))
        return self._least[replicas]


def _swapped(table: Table, held: Held, old: int, new: int) -> list[Seat]:
    return table.seats_of(tuple(new if replica == old else replica for replica in held.replicas))


class _Filling:
    """Replicas go from the brokers that hold most to the receivers that hold least."""

    def __init__(self, table: Table, receivers: Sequence[int], *, exact: bool) -> None:
        """`exact`: up to the last replica of the receivers' share; else small differences are left alone."""
        self._table = table
        self._receivers = receivers
        average = table.average()
        slack = 0 if exact else floor(average * SLACK)
        self._low = floor(average) - slack
        self._high = inf if exact else ceil(average) + slack
        self._leaders = table.average_preferred()
        self._offers: dict[tuple[int, int], Iterator[Held]] = {}

    def steps(self) -> Iterator[Held]:
        while (held := self._step()) is not None:
            yield held

    def _step(self) -> Held | None:
        counts = self._table.counts
        receivers = sorted(self._receivers, key=lambda broker_id: (counts[broker_id], broker_id))
        givers = sorted(self._table.open, key=lambda broker_id: (-counts[broker_id], broker_id))
        for receiver in receivers:
            for giver in givers:
                uneven = counts[receiver] < self._low or counts[giver] > self._high
                if counts[giver] - counts[receiver] < 2 or not uneven:
                    break
                held = next(self._offer(giver, receiver), None)
                if held is not None:
                    self._table.replace(held, giver, receiver, f"broker {receiver} holds less than its share")
                    return held
        return None

    def _offer(self, giver: int, receiver: int) -> Iterator[Held]:
        """What could go from one to the other, best first. Each is asked for once the one before has gone."""
        pair = (giver, receiver)
        if pair not in self._offers:
            self._offers[pair] = self._offered(giver, receiver)
        return self._offers[pair]

    def _offered(self, giver: int, receiver: int) -> Iterator[Held]:
        ordered = sorted(self._table.by_broker[giver], key=lambda held: rank(held.hash, receiver), reverse=True)
        wishes: tuple[Callable[[Held], bool], ...] = (
            lambda held: self._role_fits(held, giver, receiver) and self._spreads(held, giver, receiver) >= 2,
            lambda held: self._role_fits(held, giver, receiver) and self._spreads(held, giver, receiver) >= 1,
            lambda held: self._spreads(held, giver, receiver) >= 1,
            lambda held: True,
        )
        for wish in wishes:
            yield from (held for held in ordered if wish(held) and self._can_go(held, giver, receiver))

    def _role_fits(self, held: Held, giver: int, receiver: int) -> bool:
        """A preferred leader goes to who leads less than its share, a follower to who doesn't."""
        preferred = self._table.preferred
        wanted = preferred[receiver] + 1 <= self._leaders and preferred[giver] > preferred[receiver]
        return wanted == (held.replicas[0] == giver)

    def _spreads(self, held: Held, giver: int, receiver: int) -> int:
        """How many more replicas of its topic the giver has."""
        in_topic, topic_id = self._table.in_topic, held.topic.topic_id
        return in_topic[topic_id, giver] - in_topic[topic_id, receiver]

    def _can_go(self, held: Held, giver: int, receiver: int) -> bool:
        if not held.is_free or giver not in held.replicas or receiver in held.replicas:
            return False
        now = crowding(self._table.seats_of(held.replicas))
        return crowding(_swapped(self._table, held, giver, receiver)) <= now
