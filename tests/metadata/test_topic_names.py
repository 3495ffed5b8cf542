import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.topic_names import collision_key, is_valid_topic_name, require_valid


@pytest.mark.parametrize("name", ["a", "orders", "A-z_0.9", "__consumer_offsets", "x" * 249, "..."])
def test_letters_digits_dots_dashes_and_underscores_make_a_name(name: str) -> None:
    assert is_valid_topic_name(name)
    require_valid(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "250 characters, 249 are allowed"),
        ("a/b", "characters other than"),
        ("größe", "characters other than"),
        ("a b", "characters other than"),
        ("a\n", "characters other than"),
    ],
)
def test_anything_else_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(BrokerError, match=reason) as caught:
        require_valid(name)
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not is_valid_topic_name(name)


def test_names_collide_that_metrics_can_not_tell_apart() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") == "a_b_c"
    assert collision_key("a-b") is None
