from collections.abc import Sequence

import pytest

from ottla.errors import InvariantError
from ottla.protocol.fields import Field, default_of, is_nullable, since, tagged, until, wire_type
from ottla.protocol.messages.fetch import ReplicaState
from ottla.protocol.primitives import Array, ByteString, Fixed, RecordData, Records, Struct, Text, Uuid, int16


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (str, Text()),
        (str | None, Text()),
        (bytes, ByteString()),
        (bool, Fixed("?", 1, False)),
        (float, Fixed("d", 8, 0.0)),
        (int16, Fixed("h", 2, 0)),
        (Uuid, Fixed("16s", 16, bytes(16))),
        (Records | None, RecordData()),
        (ReplicaState, Struct(ReplicaState)),
        (Sequence[int16], Array(Fixed("h", 2, 0))),
        (Sequence[ReplicaState] | None, Array(Struct(ReplicaState))),
    ],
)
def test_an_annotation_says_what_is_on_the_wire(annotation: object, kind: object) -> None:
    assert wire_type(annotation) == kind


@pytest.mark.parametrize("annotation", [int, list[str], dict[str, str], object])
def test_other_annotations_are_a_mistake_in_a_table(annotation: object) -> None:
    with pytest.raises(InvariantError):
        wire_type(annotation)


def test_what_may_be_null_says_so() -> None:
    assert is_nullable(str | None)
    assert is_nullable(Records | None)
    assert not is_nullable(Records)
    assert not is_nullable(Sequence[str])


def test_a_default_is_what_the_line_says_or_zero() -> None:
    assert default_of(5, int16) == 5
    assert default_of(since(3), int16) == 0
    assert default_of(since(3, default=-1), int16) == -1
    assert default_of(until(3), str) == ""
    assert default_of(until(3), str | None) == ""
    assert default_of(since(1, default=None), str | None) is None
    assert default_of(tagged(0), Sequence[int16]) == ()
    assert default_of(Field(), ReplicaState) == ReplicaState()
