"""One cluster comes out of one seeds list, and never two."""

import os
import random
from collections.abc import Callable

import pytest

from ottla.membership.founding import CHECK_MS, Formed, Founding, Refused
from ottla.membership.founding_ids import cluster_id_of, seeds_digest
from ottla.membership.founding_wire import ANSWER, ASK, NO_DIGEST, Founder, Statement, decode, encode
from tests.membership.founding_simulation import FAIR, FoundingSimulation, TwoClustersError, Weather, trouble

SEEDS = int(os.environ.get("OTTLA_FOUNDING_SEEDS", "100"))
NAMES = ["a:1", "b:2", "c:3"]
STORM = Weather(loss=0.1, late=0.5, late_ms=300, delay_ms=5)
HASTE_MS = (1, 5, 10, 20, 40, 80)


def directory(number: int) -> bytes:
    return bytes([number]) * 16


ONE, TWO, THREE = (Founder(number, directory(number)) for number in (1, 2, 3))
OTHER = Formed(cluster_id="other", voters=(Founder(9, directory(9)),), is_founder=False)


class Desk:
    """One core, and what it asks: the test answers."""

    def __init__(self, me: Founder = ONE, *, formed: Formed | None = None, seeds: list[str] | None = None) -> None:
        self.now_ms = 1_000
        self.core = Founding(
            me=me,
            seeds=NAMES if seeds is None else seeds,
            own_seeds=["a:1"],
            formed=formed,
            random=random.Random(1),
            now_ms=self.now_ms,
        )
        self.asked: dict[str, int] = {}
        """The nonce of the last question to each seed."""
        self.said: Statement | None = None
        self.tick()

    def tick(self, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        for seed, packet in self.core.tick(self.now_ms):
            kind, nonce, self.said = decode(packet)
            assert kind == ASK
            self.asked[seed] = nonce

    def answer(self, seed: str, said: Statement, nonce: int | None = None) -> None:
        self.core.receive(encode(ANSWER, self.asked[seed] if nonce is None else nonce, said), self.now_ms)
        self.tick(1_000)

    def is_asked(self) -> Statement | None:
        """What the core says to somebody."""
        answer = self.core.receive(encode(ASK, 7, says(TWO)), self.now_ms).answer
        return None if answer is None else decode(answer).statement


def says(founder: Founder, *, digest: bytes = NO_DIGEST, process: int = 0, seeds: list[str] | None = None) -> Statement:
    return Statement(founder, process or founder.node_id, seeds_digest(seeds or NAMES), digest, "", (), False)


def is_of(founder: Founder, formed: Formed, *, established: bool = False) -> Statement:
    return says(founder)._replace(
        cluster_id=formed.cluster_id, voters=formed.voters, is_established=established, founders_digest=NO_DIGEST
    )


def formed_by(*founders: Founder, me: Founder = ONE) -> Formed:
    return Formed(cluster_id=cluster_id_of(founders), voters=tuple(sorted(founders)), is_founder=me in founders)


def meet_all(desk: Desk) -> bytes:
    """Everybody is known; the digest that the core says then."""
    desk.answer("b:2", says(TWO))
    desk.answer("c:3", says(THREE))
    said = desk.is_asked()
    assert said is not None
    return said.founders_digest


def test_without_seeds_a_node_is_a_cluster_at_once() -> None:
    core = Founding(me=ONE, seeds=(), random=random.Random(1), now_ms=0)

    assert core.outcome == formed_by(ONE)


def test_with_only_itself_for_a_seed_it_is_one_too() -> None:
    assert Desk(seeds=["a:1"]).core.outcome == formed_by(ONE)


def test_it_founds_when_all_say_the_same() -> None:
    desk = Desk()
    digest = meet_all(desk)
    assert digest != NO_DIGEST

    desk.answer("b:2", says(TWO, digest=digest))
    assert desk.core.outcome is None
    desk.answer("c:3", says(THREE, digest=digest))

    assert desk.core.outcome == formed_by(ONE, TWO, THREE)


def test_it_says_nothing_until_its_decision_is_on_disk() -> None:
    desk = Desk()
    digest = meet_all(desk)
    desk.answer("b:2", says(TWO, digest=digest))
    desk.answer("c:3", says(THREE, digest=digest))
    assert desk.is_asked() is None

    desk.core.settled()

    said = desk.is_asked()
    assert said is not None
    assert (said.cluster_id, said.voters) == (formed_by(ONE, TWO, THREE).cluster_id, (ONE, TWO, THREE))


def test_what_was_said_of_another_set_counts_no_more() -> None:
    desk = Desk()
    digest = meet_all(desk)
    desk.answer("b:2", says(TWO, digest=digest))
    wiped = Founder(3, directory(33))

    desk.answer("c:3", says(wiped))

    said = desk.is_asked()
    assert said is not None
    assert said.founders_digest not in (digest, NO_DIGEST)
    desk.answer("c:3", says(wiped, digest=said.founders_digest))
    assert desk.core.outcome is None
    desk.answer("b:2", says(TWO, digest=said.founders_digest))
    assert desk.core.outcome == formed_by(ONE, TWO, wiped)


def test_what_was_said_of_a_set_does_not_count_when_the_set_comes_back() -> None:
    desk = Desk()
    digest = meet_all(desk)
    desk.answer("b:2", says(TWO, digest=digest))

    desk.answer("c:3", says(Founder(3, directory(33))))
    desk.answer("c:3", says(THREE, digest=digest))

    assert desk.core.outcome is None
    desk.answer("c:3", says(THREE, digest=digest))
    desk.answer("b:2", says(TWO, digest=digest))
    assert desk.core.outcome == formed_by(ONE, TWO, THREE)


def test_a_nonce_is_good_for_one_answer() -> None:
    desk = Desk()
    nonce = desk.asked["c:3"]
    desk.answer("c:3", says(THREE), nonce)

    desk.answer("c:3", is_of(Founder(3, directory(33)), OTHER, established=True), nonce)

    assert desk.core.outcome is None


def test_an_answer_to_a_question_that_was_never_asked_is_nothing() -> None:
    desk = Desk()

    desk.answer("c:3", is_of(THREE, OTHER, established=True), nonce=12345)

    assert desk.core.outcome is None


def test_a_founder_takes_the_cluster_that_another_founder_is_in_already() -> None:
    desk = Desk()
    formed = formed_by(ONE, TWO, THREE)

    desk.answer("b:2", is_of(TWO, formed))

    assert desk.core.outcome == formed


def test_one_that_lost_its_disk_joins_when_there_is_a_leader() -> None:
    desk = Desk()
    formed = formed_by(Founder(1, directory(11)), TWO, THREE)

    desk.answer("b:2", is_of(TWO, formed))
    assert desk.core.outcome is None
    assert "founded with another data directory" in desk.core.waits_for()
    desk.answer("b:2", is_of(TWO, formed, established=True))

    assert desk.core.outcome == formed
    assert isinstance(desk.core.outcome, Formed)
    assert not desk.core.outcome.is_founder


def test_who_is_not_among_the_seeds_never_founds() -> None:
    core = Founding(me=Founder(4, directory(4)), seeds=["b:2"], random=random.Random(1), now_ms=0)
    ((seed, question),) = core.tick(0)

    core.receive(encode(ANSWER, decode(question).nonce, says(TWO, seeds=["b:2"])), 1)

    assert seed == "b:2"
    assert core.outcome is None


def test_it_knows_itself_when_it_hears_itself() -> None:
    core = Founding(me=ONE, seeds=["me:1"], random=random.Random(1), now_ms=0)
    ((_, question),) = core.tick(0)
    answer = core.receive(question, 0).answer
    assert answer is not None

    core.receive(answer, 1)

    assert core.outcome == formed_by(ONE)


def test_between_two_clusters_it_does_not_choose() -> None:
    desk = Desk()
    third = Formed(cluster_id="third", voters=(), is_founder=False)
    desk.core.receive(encode(ANSWER, desk.asked["b:2"], is_of(TWO, OTHER)), desk.now_ms)

    desk.core.receive(encode(ANSWER, desk.asked["c:3"], is_of(THREE, third, established=True)), desk.now_ms)

    assert desk.core.outcome is None
    assert desk.core.waits_for() == "b:2 is of cluster other and c:3 is of cluster third"


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda desk: None, "b:2 and c:3 do not answer"),
        (lambda desk: desk.answer("b:2", says(TWO)), "c:3 does not answer"),
        (lambda desk: desk.answer("b:2", says(TWO, seeds=["b:2"])), "node 2 at b:2 was started with other seeds"),
        (lambda desk: desk.answer("b:2", says(Founder(1, directory(5)))), "a:1 and b:2 all call themselves node 1"),
        (lambda desk: desk.answer("b:2", says(ONE, process=5)), "b:2 has a copy of this node's data directory"),
        (meet_all, "the others do not agree yet"),
        (lambda desk: desk.answer("b:2", is_of(TWO, OTHER)), "b:2 is of cluster other, which has no leader yet"),
    ],
)
def test_it_says_what_it_waits_for(prepare: Callable[[Desk], object], why: str) -> None:
    desk = Desk()

    prepare(desk)

    assert why in desk.core.waits_for()
    assert desk.core.outcome is None


# Nodes with data


def test_a_node_with_data_goes_on_when_one_of_its_cluster_answers() -> None:
    formed = formed_by(ONE, TWO, THREE)
    desk = Desk(formed=formed)
    assert desk.core.outcome is None

    desk.answer("b:2", is_of(TWO, formed))

    assert desk.core.outcome == formed


def test_a_node_with_data_goes_on_when_nobody_answers() -> None:
    formed = formed_by(ONE, TWO, THREE)
    desk = Desk(formed=formed)

    desk.tick(CHECK_MS - 1)
    assert desk.core.outcome is None
    desk.tick(1)

    assert desk.core.outcome == formed


def test_a_node_with_data_is_refused_where_all_are_of_another_cluster() -> None:
    desk = Desk(formed=formed_by(ONE))

    for seed, founder in (("b:2", TWO), ("c:3", THREE)):
        desk.core.receive(encode(ANSWER, desk.asked[seed], is_of(founder, OTHER)), desk.now_ms)

    assert isinstance(desk.core.outcome, Refused)
    assert formed_by(ONE).cluster_id in desk.core.outcome.sentence
    assert "b:2 and c:3 are of cluster other" in desk.core.outcome.sentence


def test_a_node_with_data_is_refused_when_those_who_answer_in_time_are_of_another_cluster() -> None:
    desk = Desk(formed=formed_by(ONE))

    desk.core.receive(encode(ANSWER, desk.asked["b:2"], is_of(TWO, OTHER)), desk.now_ms)
    assert desk.core.outcome is None
    desk.tick(CHECK_MS)

    assert isinstance(desk.core.outcome, Refused)


def test_a_node_with_data_minds_no_founders_who_wait() -> None:
    desk = Desk(formed=formed_by(ONE))

    desk.answer("b:2", says(TWO))
    desk.answer("c:3", says(THREE))

    assert desk.core.outcome == formed_by(ONE)


def test_whatever_arrives_nothing_is_raised() -> None:
    desk = Desk()
    dice = random.Random(3)
    sound = encode(ANSWER, desk.asked["b:2"], is_of(TWO, formed_by(ONE, TWO, THREE)))
    for length in range(len(sound)):
        desk.core.receive(sound[:length], 1)
        desk.core.receive(dice.randbytes(length), 1)

    assert desk.core.outcome is None


# All of them together


def test_founders_that_start_together_are_one_cluster_within_moments() -> None:
    simulation = FoundingSimulation(1, weather=FAIR)
    for host in simulation.founders:
        simulation.start(host)

    simulation.run(300)

    assert simulation.is_one_cluster()
    assert all(host.disk and host.disk.formed and host.disk.formed.is_founder for host in simulation.founders)


def test_nothing_happens_before_the_last_founder_is_there() -> None:
    simulation = FoundingSimulation(1, weather=FAIR)
    for host in simulation.founders[:2]:
        simulation.start(host)
    simulation.run(60_000)
    assert not simulation.clusters()

    simulation.start(simulation.founders[2])
    simulation.run(300)

    assert simulation.is_one_cluster()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_any_order_and_any_weather_make_one_cluster(size: int) -> None:
    for seed in range(SEEDS // 5):
        simulation = FoundingSimulation(seed, founders=size, joiners=2)
        simulation.crash_before_write = 0.3
        trouble(simulation, steps=30, wipes=0.0)

        assert simulation.run_until_one_cluster(), "\n".join([f"seed {seed}", *simulation.story])


@pytest.mark.parametrize("is_hasty", [False, True])
def test_lost_disks_never_make_two_clusters_and_one_comes_of_it_while_a_majority_is_left(is_hasty: bool) -> None:
    stuck = 0
    for seed in range(SEEDS):
        simulation = FoundingSimulation(seed, founders=seed % 4 + 2, weather=STORM if is_hasty else None)
        simulation.crash_before_write = 0.3
        if is_hasty:
            trouble(simulation, steps=60, wipes=0.4, pauses_ms=HASTE_MS)
        else:
            trouble(simulation, steps=40, wipes=0.15)

        if not simulation.run_until_one_cluster(limit_ms=15_000):
            assert simulation.has_lost_its_majority(), "\n".join([f"seed {seed}", *simulation.story])
            stuck += 1

    assert stuck < SEEDS // 2


# The simulation finds what it is for


class BelievesOldAnswers(Founding):
    def _nonce(self) -> int:
        return 77 + len(self._seeds)

    def _hear(self, nonce: int, said: Statement, now_ms: int) -> None:
        for seed in self._seeds:  # whoever it is that answers
            if seed.startswith(f"h{said.founder.node_id}:"):
                self._nonces[seed] = nonce
                super()._hear(nonce, said, now_ms)


class FoundsByMajority(Founding):
    def _found_or_join(self) -> Formed | None:
        digest = self._digest()
        agree = [said for said in self._answers() if said.founders_digest == digest]
        if digest != NO_DIGEST and (len(agree) + 1) * 2 > len(self._seeds) and not self._clusters():
            founders = self._founders()
            assert founders is not None
            return Formed(cluster_id=cluster_id_of(founders), voters=founders, is_founder=True)
        return super()._found_or_join()


@pytest.mark.parametrize(("core", "founders"), [(BelievesOldAnswers, 2), (FoundsByMajority, 3)])
def test_a_planted_bug_makes_two_clusters(core: type[Founding], founders: int) -> None:
    def runs() -> None:
        for seed in range(400):
            simulation = FoundingSimulation(seed, founders=founders, weather=STORM, core=core)
            trouble(simulation, steps=60, wipes=0.4, pauses_ms=HASTE_MS)

    with pytest.raises(TwoClustersError):
        runs()
