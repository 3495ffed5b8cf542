"""Groups live in the partition in which Kafka would look for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.routing import java_string_hash, partition_for_group

# From a Java virtual machine.
HASHES = [
    ("", 0, 0),
    ("a", 97, 47),
    ("hello", 99162322, 22),
    ("ü", 252, 2),
    ("😀", 1772899, 49),
    ("test-group", 627841412, 12),
    ("console-consumer-12345", 158455506, 6),
    ("orders", -1008770331, 31),
    ("polygenelubricants", -(2**31), 0),
]


@pytest.mark.parametrize(("text", "hashed", "partition"), HASHES)
def test_the_hash_is_that_of_java_and_its_absolute_value_picks_the_partition(
    text: str, hashed: int, partition: int
) -> None:
    assert java_string_hash(text) == hashed
    assert partition_for_group(text, 50) == partition


@given(st.text(), st.integers(1, 10_000))
def test_every_group_has_a_partition(group_id: str, partitions: int) -> None:
    assert 0 <= partition_for_group(group_id, partitions) < partitions
