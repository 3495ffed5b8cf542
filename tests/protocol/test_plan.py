import pytest

from ottla.protocol.codec import encode
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.plan import plan, size_bytes_min
from ottla.protocol.primitives import Struct
from ottla.protocol.schema import Versioned
from tests.protocol.catalog import EVERYTHING, name_of


@pytest.mark.parametrize(("cls", "version"), EVERYTHING, ids=name_of)
def test_the_smallest_size_is_that_of_a_message_with_nothing_in_it(cls: type[Versioned], version: int) -> None:
    """Arrays are refused by it: too large, and messages that are right are refused; too small, and memory is wasted."""
    smallest = size_bytes_min(Struct(cls), version, version >= cls.flexible_from)

    assert smallest == len(encode(cls(), version))


def test_a_version_has_its_own_fields_and_the_defaults_of_the_others() -> None:
    fields = plan(FetchRequest, 15)

    assert [field.name for field in fields.tagged] == ["cluster_id", "replica_state"]
    assert [field.name for field in fields.absent] == ["replica_id"]
    assert fields.absent[0].default == -1
    assert fields.ordered[0].name == "max_wait_ms"


def test_null_is_allowed_from_a_version_on() -> None:
    assert [plan(MetadataRequest, version).ordered[0].nullable for version in (0, 1, 13)] == [False, True, True]
