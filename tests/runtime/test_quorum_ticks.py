"""Raft's time in a node: nobody is woken to count, and a process that stood still holds it against nobody."""

from typing import Any

from ottla.raft.messages import Heartbeat
from ottla.raft.ready import RoleName
from ottla.runtime.quorum import STANDSTILL_TICKS, Quorum
from tests.raft.net import ELECTION_TICKS
from tests.raft.test_paper_5_elections import heartbeat, host_with
from tests.runtime.virtual_time import Clock, Timers

TICK_MS = 50
LEADER, OTHER = 2, 3


class Loop:
    def call_soon(self, action: Any) -> None:
        action()


class Store:
    """A disk that is never asked for anything here."""

    def __init__(self) -> None:
        host = host_with(1)
        self.log = host.disk
        self.state = host.disk.hard_state

    def hard_state(self) -> Any:
        return self.state

    def write_hard_state(self, _state: object) -> None:
        """It is there at once."""


class Committer:
    failed = None

    def after_commit(self, done: Any) -> None:
        done(None)

    def commit_soon(self) -> None:
        """Nothing to be done."""


class Rig:
    def __init__(self) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        make: Any = Quorum
        self.quorum = make(
            node_id=1,
            directory_id=bytes(16),
            store=Store(),
            committer=Committer(),
            clock=self.clock,
            timers=self.timers,
            loop=Loop(),
            random=_Highest(),
            tick_ms=TICK_MS,
        )
        self.quorum.start()
        self.hear()

    def hear(self) -> None:
        message: Heartbeat = heartbeat(1)
        self.quorum.step(message, bytes(16))

    def role(self) -> RoleName:
        role: RoleName = self.quorum._node.leadership.role
        return role


class _Highest:
    def randint(self, _low: int, high: int) -> int:
        return high


def test_a_follower_that_hears_from_its_leader_sleeps() -> None:
    rig = Rig()
    woken = 0
    for beat in range(1, 101):
        woken += rig.timers.run_to(10_000 + beat * 2 * TICK_MS)
        rig.hear()

    assert rig.role() == RoleName.FOLLOWER
    assert woken <= 200 // ELECTION_TICKS, "ten seconds, in which there were 200 ticks"


def test_a_silent_leader_is_noticed_at_the_tick_at_which_it_would_be_by_counting() -> None:
    rig = Rig()
    rig.timers.run_to(10_000 + 3 * TICK_MS)
    rig.hear()
    patience_ms = (2 * ELECTION_TICKS - 1) * TICK_MS

    rig.timers.run_to(10_000 + 3 * TICK_MS + patience_ms - 1)
    assert rig.role() == RoleName.FOLLOWER
    rig.timers.run_to(10_000 + 3 * TICK_MS + patience_ms + TICK_MS)

    assert rig.role() == RoleName.PRE_CANDIDATE


def test_a_process_that_stood_still_does_not_blame_its_leader() -> None:
    rig = Rig()
    rig.clock.at_ms += 60_000 + STANDSTILL_TICKS * TICK_MS

    rig.timers.run_to(rig.clock.at_ms)

    assert rig.role() == RoleName.FOLLOWER


def noticed_after_ms(rig: Rig) -> int:
    """How long from now until the leader, which says nothing more, is not followed any longer."""
    begun_ms = rig.clock.at_ms
    while rig.role() == RoleName.FOLLOWER:
        rig.timers.run_to(rig.clock.at_ms + TICK_MS)
    return rig.clock.at_ms - begun_ms


def test_a_doubt_of_the_leader_shortens_the_wait_for_it_whatever_ends_elsewhere() -> None:
    patient, doubtful, other_ended = Rig(), Rig(), Rig()
    doubtful.quorum.doubt({LEADER})
    other_ended.quorum.doubt({LEADER})
    other_ended.quorum.process_ended(OTHER)

    assert noticed_after_ms(other_ended) == noticed_after_ms(doubtful) < noticed_after_ms(patient)


def test_a_doubt_that_is_taken_back_shortens_nothing() -> None:
    patient, trusting = Rig(), Rig()
    trusting.quorum.doubt({LEADER})
    trusting.quorum.doubt({OTHER})

    assert noticed_after_ms(trusting) == noticed_after_ms(patient)


def test_a_leader_whose_process_has_ended_is_not_waited_for() -> None:
    doubtful, ended = Rig(), Rig()
    doubtful.quorum.doubt({LEADER})
    ended.quorum.process_ended(LEADER)

    assert noticed_after_ms(ended) < noticed_after_ms(doubtful)
