"""Members of a classic group that join again: what starts a rebalance, and what only repeats an answer."""

from ottla.errors import ErrorCode
from tests.groups.harness import (
    Client,
    Host,
    joined_alone,
    joined_pair,
    stable_group,
    subscription,
)


def test_a_follower_that_rejoins_unchanged_is_told_of_the_current_generation() -> None:
    host = Host()
    _, b = stable_group(host, "a", "b")

    answer = b.join().answer

    assert (answer.generation_id, list(answer.members)) == (1, [])
    assert host.state_of("g") == "Stable"


def test_the_leader_that_rejoins_starts_a_rebalance() -> None:
    host = Host()
    a, _ = stable_group(host, "a", "b")

    assert a.join().waits
    assert host.state_of("g") == "PreparingRebalance"


def test_a_follower_with_a_changed_subscription_starts_a_rebalance() -> None:
    host = Host()
    _, b = stable_group(host, "a", "b")
    b.protocols = [("range", subscription("t", "u"))]

    assert b.join().waits
    assert host.state_of("g") == "PreparingRebalance"


def test_a_join_that_is_repeated_while_the_rebalance_completes_gets_the_same_answer() -> None:
    host = Host()
    client = Client(host, "g", "a")
    first = joined_alone(host, client)
    client.learn(first)

    again = client.join()

    assert again.answer == first.answer
    assert host.state_of("g") == "CompletingRebalance"


def test_a_join_that_is_repeated_while_it_waits_takes_the_place_of_the_first() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    first = a.join()

    second = a.join()

    assert first.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    b.join()
    assert second.answer.generation_id == 2


def test_a_changed_subscription_while_the_rebalance_completes_starts_another() -> None:
    host = Host()
    a, b = joined_pair(host)
    waiting = b.sync()
    a.protocols = [("range", subscription("other"))]

    assert a.join().waits
    assert waiting.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
