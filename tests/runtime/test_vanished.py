"""Whoever asks for metadata while the end of a broker is being noticed is told what becomes of it."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage
from ottla.metadata.state import MetadataState
from ottla.runtime.vanished import AGAIN_MS, LISTED_MS, LOOK_MS, WAIT_MS, Vanished
from ottla.services import Deferred
from tests.runtime.virtual_time import Clock, Timers

DEAD, OTHER = 2, 3


class Rig:
    def __init__(self, *broker_ids: int) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.fenced: set[int] = set()
        self._broker_ids = broker_ids
        timers: Any = self.timers
        self.vanished = Vanished(image=self.image, clock=self.clock, timers=timers)

    def image(self) -> MetadataImage:
        brokers = [
            BrokerImage(
                broker_id=broker_id,
                broker_epoch=1,
                incarnation_id=bytes(16),
                rack=None,
                endpoints=(Endpoint(name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id, security_protocol=0),),
                fenced=broker_id in self.fenced,
            )
            for broker_id in self._broker_ids
        ]
        return replace(MetadataState().image, brokers={broker.broker_id: broker for broker in brokers})

    def fence(self, broker_id: int) -> None:
        self.fenced.add(broker_id)
        self.vanished.image_changed()

    def ask(self) -> Deferred[None]:
        settled = self.vanished.settled()
        assert settled is not None
        return settled

    def pass_ms(self, ms: int) -> None:
        self.timers.run_to(self.clock.at_ms + ms)


def test_an_answer_waits_until_the_cluster_has_decided() -> None:
    rig = Rig(1, DEAD, OTHER)
    rig.vanished.lost(DEAD)
    asked = rig.ask()
    rig.pass_ms(WAIT_MS - 1)
    assert not asked.done

    rig.fence(DEAD)

    assert asked.done


def test_one_who_asks_a_moment_before_it_is_noticed_here_waits_too() -> None:
    rig = Rig(1, DEAD, OTHER)
    asked = rig.ask()
    rig.vanished.lost_at(("127.0.0.1", 9000 + DEAD))
    rig.pass_ms(LOOK_MS)
    assert not asked.done

    rig.fence(DEAD)

    assert asked.done


def test_where_nobody_has_vanished_an_answer_waits_for_a_moment_only() -> None:
    rig = Rig(1, OTHER)
    asked = rig.ask()

    rig.pass_ms(LOOK_MS)

    assert asked.done


def test_a_node_without_others_waits_for_nothing() -> None:
    assert Rig(1).vanished.settled() is None


def test_a_broker_about_which_nothing_is_decided_is_not_waited_for_longer() -> None:
    rig = Rig(1, DEAD, OTHER)
    rig.vanished.lost(DEAD)
    asked = rig.ask()

    rig.pass_ms(WAIT_MS)

    assert asked.done


def test_with_two_that_vanish_both_are_waited_for() -> None:
    rig = Rig(1, DEAD, OTHER)
    rig.vanished.lost(DEAD)
    rig.vanished.lost(OTHER)
    asked = rig.ask()
    rig.fence(DEAD)
    assert not asked.done

    rig.fence(OTHER)

    assert asked.done


@pytest.mark.parametrize(("after_ms", "waits"), [(AGAIN_MS - 1, False), (AGAIN_MS, True)])
def test_one_that_goes_on_hanging_up_without_dying_holds_up_nobody(after_ms: int, waits: bool) -> None:
    rig = Rig(1, DEAD, OTHER)
    rig.vanished.lost(DEAD)
    rig.pass_ms(after_ms)
    rig.vanished.lost(DEAD)
    asked = rig.ask()

    rig.pass_ms(LOOK_MS)

    assert asked.done is not waits


def test_one_that_is_out_of_service_is_not_waited_for() -> None:
    rig = Rig(1, DEAD, OTHER)
    rig.fence(DEAD)
    rig.vanished.lost(DEAD)
    asked = rig.ask()

    rig.pass_ms(LOOK_MS)

    assert asked.done
    assert not rig.vanished.is_listed(DEAD)


def test_one_that_has_vanished_is_listed_for_a_while() -> None:
    rig = Rig(1, DEAD, OTHER)
    rig.vanished.lost(DEAD)
    rig.fence(DEAD)

    rig.pass_ms(LISTED_MS - 1)
    assert rig.vanished.is_listed(DEAD)
    rig.pass_ms(1)
    assert not rig.vanished.is_listed(DEAD)
    assert not rig.vanished.is_listed(OTHER)
