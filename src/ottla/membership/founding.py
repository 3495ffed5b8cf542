"""How nodes that have nothing become one cluster, and never two.

Nodes that are first started with the same seeds, themselves among them, are its founders. Each asks every seed who is
there. Once a node knows all founders (node id and directory id each) it says so, by a digest of the set. **It founds
the cluster when every other founder has said the same digest**, and the cluster's id is that digest: whoever founds
from this set founds the same cluster, with the same voters. Whoever hears that somebody is in a cluster takes that one.

A founder may restart, or come back with an empty disk, at any moment, and packets may be late by any time. Why two
clusters never come out of it all the same:

- An answer has the nonce of its question. A node takes new nonces, and forgets what it heard, whenever somebody in its
  set is replaced (and when it starts): what it counts on was said after it began to count on this very set.
- Let A found the set D and C found another one, D'. Both are in both sets, as all have the same seeds. C said D after
  A had begun with D; as C founds D', and one that has founded speaks of its cluster only, C began with D' after that.
  A said D' after C had begun with D', and so A began with D after that. Each came before the other: it can't be.
- A nonce is good for one answer. So whoever knows of the founder that came to a seed with a new directory does not
  listen to its predecessor any more, which may have been in a cluster that nobody else has heard of.
- That somebody is formed is on its disk before it is said.

What is lost with a disk can't be held against anybody: if all but one of those who have founded lose their disks before
the others have heard of it, a new cluster is founded without them. If a majority of the founders of a cluster that is
on somebody's disk lose theirs, it can't have a leader any more, as with any quorum, and it takes a person to decide
that: the remaining directory has to be removed.

Who is not among the founders joins only a cluster that has a leader: one of which a majority is on disk.

A node with data has its cluster. It asks its seeds once, and refuses to start if all that answer are of another one.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from ottla.config.units import SECOND_MS
from ottla.errors import ProtocolError, invariant
from ottla.membership.founding_ids import cluster_id_of, founders_digest, seeds_digest
from ottla.membership.founding_wire import ANSWER, ASK, NO_DIGEST, NONCE_MAX, Founder, Statement, decode, encode
from ottla.ports import Random
from ottla.values import value

ASK_EVERY_MS = 100
ASK_EVERY_MS_MAX = SECOND_MS
ASK_AGAIN_MS = 10
"""The least time between two rounds of questions."""
CHECK_MS = SECOND_MS
"""How long a node with data waits for somebody who says that its seeds are of its cluster."""


@value
class Formed:
    """A cluster, and whether this node is one of those who have founded it."""

    cluster_id: str
    voters: tuple[Founder, ...]
    is_founder: bool


@value
class Refused:
    """This node must not start, and why."""

    sentence: str


class Received(NamedTuple):
    """What a packet brings about."""

    answer: bytes | None = None
    """To be sent to where the packet came from."""


class Founding:
    """One node's part in it: packets and the time in, packets and an `outcome` out.

    The runtime sends `tick`'s packets to the seeds that they are for, and calls it again at `next_deadline_ms`. When
    `outcome` is there it is written to disk, then `settled` is called; the node goes on answering for all its life.
    """

    def __init__(
        self,
        *,
        me: Founder,
        seeds: Sequence[str],
        own_seeds: Collection[str] = (),
        formed: Formed | None = None,
        random: Random,
        now_ms: int,
    ) -> None:
        """`own_seeds`: those that are known to be this node. It also knows itself when it hears itself."""
        self.outcome: Formed | Refused | None = None
        self.is_established = False
        """Set by the runtime: the cluster has a leader, so a majority of its founders have it on disk."""
        self._me = me
        self._seeds = tuple(sorted(set(seeds)))
        self._seeds_digest = seeds_digest(self._seeds)
        self._random = random
        self._process = random.randint(1, NONCE_MAX)
        self._formed = formed
        self._is_settled = formed is not None
        self._copies: set[str] = set()
        """Seeds at which there is a copy of this node's directory."""
        self._held: dict[str, Founder] = {seed: me for seed in self._seeds if seed in own_seeds}
        self._nonces: dict[str, int] = {}
        self._heard: dict[str, Statement] = {}
        """What each of the others said last."""
        self._renew()
        self._ask_ms: int | None = now_ms
        self._asked_ms = now_ms - ASK_EVERY_MS
        self._pause_ms = ASK_EVERY_MS
        self._check_until_ms = now_ms + CHECK_MS
        self._conclude(now_ms)

    # What is known

    @property
    def others(self) -> tuple[str, ...]:
        """The seeds that are not this node."""
        return tuple(seed for seed in self._seeds if self._held.get(seed) != self._me)

    def seeds_heard(self) -> dict[str, int]:
        """The node ids of those who answered, by seed."""
        return {seed: said.founder.node_id for seed, said in self._heard.items()}

    def next_deadline_ms(self) -> int | None:
        return self._ask_ms

    # Stimuli

    def tick(self, now_ms: int) -> Sequence[tuple[str, bytes]]:
        """Questions, and the seeds that they are for."""
        self._conclude(now_ms)
        if self.outcome is not None or self._ask_ms is None or now_ms < self._ask_ms:
            return ()
        self._asked_ms = now_ms
        self._ask_ms = now_ms + self._pause_ms
        self._pause_ms = min(self._pause_ms * 3 // 2, ASK_EVERY_MS_MAX)
        statement = self._statement()
        return [(seed, encode(ASK, self._nonces[seed], statement)) for seed in self.others]

    def receive(self, packet: bytes, now_ms: int) -> Received:
        """A datagram of anybody. Whatever is in it, this does not raise."""
        try:
            kind, nonce, said = decode(packet)
        except ProtocolError:
            return Received()
        if kind == ANSWER:
            self._hear(nonce, said, now_ms)
            return Received()
        if said.process != self._process and self.outcome is None and self._is_news(said):
            self._ask_soon(now_ms)
        if self.outcome is not None and not self._is_settled:
            return Received()
        return Received(encode(ANSWER, nonce, self._statement()))

    def settled(self) -> Formed:
        """What `outcome` says is on disk, so it may be said."""
        invariant(isinstance(self.outcome, Formed), "there is nothing to be settled")
        assert isinstance(self.outcome, Formed)
        self._formed = self.outcome
        self._is_settled = True
        self._ask_ms = None
        return self._formed

    # Asking and hearing

    def _statement(self) -> Statement:
        formed = self._formed
        return Statement(
            self._me,
            self._process,
            self._seeds_digest,
            NO_DIGEST if formed is not None else self._digest(),
            "" if formed is None else formed.cluster_id,
            () if formed is None else formed.voters,
            formed is not None and self.is_established,
        )

    def _digest(self) -> bytes:
        """Of all founders, once they are known and this node is one of them."""
        founders = self._founders()
        return founders_digest(founders) if founders is not None else NO_DIGEST

    def _founders(self) -> tuple[Founder, ...] | None:
        if len(self._held) < len(self._seeds) or self._copies:
            return None
        founders = set(self._held.values())
        if self._me not in founders or len({founder.node_id for founder in founders}) < len(founders):
            return None
        return tuple(sorted(founders))

    def _is_news(self, said: Statement) -> bool:
        return all(said != known for known in self._heard.values())

    def _ask_soon(self, now_ms: int) -> None:
        self._pause_ms = ASK_EVERY_MS
        soon_ms = max(now_ms, self._asked_ms + ASK_AGAIN_MS)
        self._ask_ms = soon_ms if self._ask_ms is None else min(self._ask_ms, soon_ms)

    def _hear(self, nonce: int, said: Statement, now_ms: int) -> None:
        seed = next((seed for seed, own in self._nonces.items() if own == nonce), None)
        if seed is None or self.outcome is not None:
            return
        before = self._digest()
        self._nonces[seed] = self._nonce()
        if said.process == self._process:
            self._hold(seed, self._me)
        elif said.founder == self._me:
            self._copies.add(seed)
        else:
            self._copies.discard(seed)
            self._meet(seed, said)
        self._conclude(now_ms)
        if self._digest() != before:
            self._ask_soon(now_ms)

    def _meet(self, seed: str, said: Statement) -> None:
        self._hold(seed, said.founder if said.seeds_digest == self._seeds_digest else None)
        self._heard[seed] = said

    def _hold(self, seed: str, founder: Founder | None) -> None:
        held = self._held.pop(seed, None)
        if held is not None and held != founder:
            self._renew()
        if founder is not None:
            self._held[seed] = founder

    def _renew(self) -> None:
        """What was said so far was said of a set that is not so any more."""
        self._heard.clear()
        self._nonces = {seed: self._nonce() for seed in self._seeds}

    def _nonce(self) -> int:
        return self._random.randint(1, NONCE_MAX)

    # Deciding

    def _conclude(self, now_ms: int) -> None:
        if self.outcome is None:
            self.outcome = self._found_or_join() if self._formed is None else self._check(self._formed, now_ms)

    def _found_or_join(self) -> Formed | None:
        clusters = self._clusters()
        if clusters:
            return self._join(clusters)
        founders = self._founders()
        if not self._seeds:
            founders = (self._me,)
        if founders is None:
            return None
        digest = founders_digest(founders)
        if any(said.founders_digest != digest for said in self._answers()):
            return None
        return Formed(cluster_id=cluster_id_of(founders), voters=founders, is_founder=True)

    def _answers(self) -> Iterable[Statement]:
        """What all others said: who has not answered has said nothing that agrees with anything."""
        return (self._heard.get(seed, SILENCE) for seed in self.others)

    def _clusters(self) -> dict[str, Statement]:
        """By cluster id, what somebody in it said: one who says that it has a leader, if there is such a one."""
        formed = [said for said in self._heard.values() if said.cluster_id]
        return {said.cluster_id: said for said in sorted(formed, key=lambda said: said.is_established)}

    def _join(self, clusters: dict[str, Statement]) -> Formed | None:
        if len(clusters) > 1:
            return None
        ((cluster_id, said),) = clusters.items()
        is_founder = self._me in said.voters
        if not is_founder and not said.is_established:
            return None
        return Formed(cluster_id=cluster_id, voters=said.voters, is_founder=is_founder)

    def _check(self, formed: Formed, now_ms: int) -> Formed | Refused | None:
        clusters = self._clusters()
        if formed.cluster_id in clusters:
            return formed
        if any(seed not in self._heard for seed in self.others) and now_ms < self._check_until_ms:
            return None
        if not clusters:
            return formed
        return Refused(
            sentence=f"the data directory belongs to cluster {formed.cluster_id}, but {_list(self._places(clusters))}:"
            " start with another data_dir, or with seeds of the cluster that it belongs to"
        )

    # What is wrong

    def waits_for(self) -> str:
        """Why there is no outcome yet, for people."""
        clusters = self._clusters()
        if clusters:
            return self._why_not_joined(clusters)
        problems = [f"{seed} has a copy of this node's data directory" for seed in sorted(self._copies)]
        problems += self._namesakes()
        for seed in self.others:
            said = self._heard.get(seed)
            if said is not None and said.seeds_digest != self._seeds_digest and seed not in self._copies:
                problems.append(f"node {said.founder.node_id} at {seed} was started with other seeds")
        silent = [seed for seed in self.others if seed not in self._heard and seed not in self._copies]
        if silent:
            problems.append(f"{_list(silent)} {'does' if len(silent) == 1 else 'do'} not answer")
        return "; ".join(problems) or "the others do not agree yet"

    def _why_not_joined(self, clusters: dict[str, Statement]) -> str:
        sentence = _list(self._places(clusters))
        if len(clusters) > 1:
            return sentence
        (said,) = clusters.values()
        if self._me.node_id in {voter.node_id for voter in said.voters}:
            return f"{sentence}, which has no leader and which this node founded with another data directory"
        return f"{sentence}, which has no leader yet"

    def _places(self, clusters: dict[str, Statement]) -> list[str]:
        """`a:1 and b:2 are of cluster X`, for each of them."""
        places = []
        for cluster_id in sorted(clusters):
            seeds = [seed for seed, said in sorted(self._heard.items()) if said.cluster_id == cluster_id]
            places.append(f"{_list(seeds)} {'is' if len(seeds) == 1 else 'are'} of cluster {cluster_id}")
        return places

    def _namesakes(self) -> list[str]:
        by_id: dict[int, dict[Founder, str]] = {}
        for seed, founder in sorted(self._held.items()):
            by_id.setdefault(founder.node_id, {}).setdefault(founder, seed)
        return [
            f"{_list(list(places.values()))} all call themselves node {node_id}"
            for node_id, places in sorted(by_id.items())
            if len(places) > 1
        ]


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


SILENCE = Statement(Founder(0, b""), 0, NO_DIGEST, NO_DIGEST, "", (), False)
