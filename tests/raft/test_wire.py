from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.raft import messages
from ottla.raft.entry import Entry, EntryId, EntryKind, Snapshot
from ottla.raft.messages import Append, Attach, Heartbeat, InstallSnapshot, Message
from ottla.raft.voters import VoterSet
from ottla.raft.wire import decode_entries, decode_message, encode_entry, encode_message

numbers = st.integers(0, 2**62)
flags = st.booleans()
entry_ids = st.builds(EntryId, numbers, numbers)
voter_sets = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(VoterSet.of)
MESSAGE_CLASSES = [
    each
    for each in vars(messages).values()
    if isinstance(each, type) and issubclass(each, Message) and each is not Message
]


@st.composite
def appends(draw: st.DrawFn) -> Append:
    previous = draw(entry_ids)
    kinds = draw(st.lists(st.tuples(numbers, st.sampled_from(EntryKind), st.binary(max_size=50)), max_size=5))
    entries = [
        Entry(index=index, term=term, kind=kind, data=data)
        for index, (term, kind, data) in enumerate(kinds, previous.index + 1)
    ]
    return Append(
        sender=draw(st.integers(0, 2**31 - 1)),
        term=draw(numbers),
        previous=previous,
        commit=draw(numbers),
        entries=entries,
    )


BY_TYPE = {"int": numbers, "bool": flags, "EntryId": entry_ids}
SPECIAL: dict[type[Message], st.SearchStrategy[Message]] = {
    Append: appends(),
    InstallSnapshot: st.builds(
        InstallSnapshot,
        sender=st.integers(0, 2**31 - 1),
        term=numbers,
        snapshot=st.builds(Snapshot, last=entry_ids, voters=voter_sets),
    ),
}


def strategy_for(kind: type[Message]) -> st.SearchStrategy[Message]:
    if kind in SPECIAL:
        return SPECIAL[kind]
    fields = {name: BY_TYPE[str(form)] for name, form in kind.__annotations__.items()}
    return st.builds(kind, sender=st.integers(0, 2**31 - 1), term=numbers, **fields)


@pytest.mark.parametrize("kind", MESSAGE_CLASSES, ids=lambda kind: kind.__name__)
@settings(deadline=None)
@given(data=st.data())
def test_what_is_written_is_read(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(strategy_for(kind))
    assert decode_message(b"".join(encode_message(message))) == message


@pytest.mark.parametrize("kind", MESSAGE_CLASSES, ids=lambda kind: kind.__name__)
@settings(deadline=None)
@given(data=st.data())
def test_a_message_that_is_cut_short_or_too_long_is_refused_or_another_message(
    kind: type[Message], data: st.DataObject
) -> None:
    """An Append may lose whole entries at its end, which is for the frame around it to notice."""
    message = data.draw(strategy_for(kind))
    whole = b"".join(encode_message(message))
    for wrong in (whole[: data.draw(st.integers(0, len(whole) - 1))], whole + b"x"):
        try:
            assert isinstance(decode_message(wrong), Append)
        except ProtocolError:
            continue


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused_or_a_message_but_never_another_failure(noise: bytes) -> None:
    try:
        message = decode_message(noise)
    except ProtocolError:
        return
    assert decode_message(b"".join(encode_message(message))) == message


def test_an_entry_that_claims_more_than_there_is_is_refused() -> None:
    head, data = encode_entry(Entry(index=1, term=1, data=b"abc"))
    with pytest.raises(ProtocolError, match="claims 3 bytes"):
        decode_entries(memoryview(head + data[:2]))


def test_an_unknown_kind_of_entry_or_message_is_refused() -> None:
    head, data = encode_entry(Entry(index=1, term=1, data=b"abc"))
    with pytest.raises(ProtocolError):
        decode_entries(memoryview(head[:16] + b"\x09" + head[17:] + data))
    (attach,) = encode_message(Attach(sender=1, term=1))
    with pytest.raises(ProtocolError):
        decode_message(b"\x63" + attach[1:])


def test_entries_must_follow_each_other() -> None:
    gap = Append(sender=1, term=1, previous=EntryId(4, 1), commit=0, entries=[Entry(index=6, term=1)])
    with pytest.raises(ProtocolError, match="follow"):
        decode_message(b"".join(encode_message(gap)))


def test_the_bytes_of_a_message_are_these() -> None:
    """They travel between nodes of different versions."""
    heartbeat = Heartbeat(sender=2, term=3, commit=EntryId(4, 5), match_index=6, round=7)
    assert b"".join(encode_message(heartbeat)) == bytes.fromhex(
        "06  00000002  0000000000000003  0000000000000004 0000000000000005  0000000000000006  0000000000000007"
    )
