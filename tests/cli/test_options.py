"""Values of options."""

import click
import pytest

from ottla.cli.options import POSITION, parse_pair, parse_partitions, parse_topic_partitions


def test_a_pair_is_split_at_its_first_equals_sign() -> None:
    assert parse_pair("a=b=c") == ("a", "b=c")


def test_a_value_may_be_empty() -> None:
    assert parse_pair("cleanup.policy=") == ("cleanup.policy", "")


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_what_is_not_a_pair_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=VALUE"):
        parse_pair(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("0", [0]), ("0,3,5", [0, 3, 5]), ("2-4", [2, 3, 4]), ("0,2-3", [0, 2, 3])]
)
def test_partitions(text: str, expected: list[int]) -> None:
    assert parse_partitions(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1,", "-1", "1-"])
def test_what_is_not_a_list_of_partitions_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="list of partitions"):
        parse_partitions(text)


def test_a_range_that_runs_backwards_is_refused() -> None:
    with pytest.raises(ValueError, match="list of partitions"):
        parse_partitions("5-2")


def test_a_topic_may_name_its_partitions() -> None:
    assert parse_topic_partitions("orders") == ("orders", None)
    assert parse_topic_partitions("orders:0,2") == ("orders", [0, 2])


def test_a_bad_value_becomes_a_usage_error_with_the_reason() -> None:
    with pytest.raises(click.BadParameter, match="expected beginning, end"):
        POSITION("yesterday")
