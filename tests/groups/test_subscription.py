"""The topics in a consumer's subscription."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.subscription import subscribed_topics
from tests.groups.harness import subscription


@pytest.mark.parametrize("version", range(4))
def test_topics_are_read_from_every_version(version: int) -> None:
    assert subscribed_topics(subscription("a", "b", version=version)) == frozenset({"a", "b"})


def test_topics_are_read_from_versions_of_the_future() -> None:
    newer = b"\x00\x63" + subscription("a", "b")[2:] + b"what we do not know yet"

    assert subscribed_topics(newer) == frozenset({"a", "b"})


@given(st.binary(max_size=40))
def test_anything_else_is_not_a_subscription(garbage: bytes) -> None:
    topics = subscribed_topics(garbage)

    assert topics is None or isinstance(topics, frozenset)
