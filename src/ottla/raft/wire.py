"""The bytes of messages and entries, all big-endian.

    message   kind 1 B · sender 4 B · term 8 B · the fields of its class, in the order of the table below · tail
    entry     index 8 B · term 8 B · kind 1 B · size of the data 4 B · data
    voters    see `voters`

    the tail of an Append is its entries; of an InstallSnapshot, the index and term of the snapshot's last entry, 8 B
    each, and the voters; all others have none

Whatever is not exactly this raises ProtocolError, and no length is believed before it was compared with what is there.
The form of an entry also serves a runtime that keeps entries in a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.errors import ProtocolError
from ottla.ports import Bytes
from ottla.raft.entry import Entry, EntryId, EntryKind, Snapshot
from ottla.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Attach,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    Message,
    ReadReply,
    ReadRequest,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from ottla.raft.voters import VoterSet

NUMBER, FLAG, ENTRY_ID = "q", "?", "qq"

_HEAD = struct.Struct(">Biq")
_ENTRY = struct.Struct(">qqBI")
_ENTRY_ID = struct.Struct(">qq")
_ENTRY_KINDS = frozenset(EntryKind)


class _Form:
    """How the messages of one class are written, but for their tail."""

    __slots__ = ("fields", "kind", "message", "packed")

    def __init__(self, kind: int, message: type[Message], **fields: str) -> None:
        self.kind = kind
        self.message = message
        self.fields = fields
        self.packed = struct.Struct(">" + "".join(fields.values()))

    def pack(self, message: Message) -> bytes:
        return self.packed.pack(*self._values(message))

    def _values(self, message: Message) -> Iterator[int]:
        for name, form in self.fields.items():
            value = getattr(message, name)
            if form is ENTRY_ID:
                yield from (value.index, value.term)
            else:
                yield value

    def unpack(self, view: memoryview, at: int) -> dict[str, Any]:
        values = iter(self.packed.unpack_from(view, at))
        return {
            name: EntryId(next(values), next(values)) if form is ENTRY_ID else next(values)
            for name, form in self.fields.items()
        }


_FORMS = (
    _Form(1, VoteRequest, last=ENTRY_ID, pre_vote=FLAG, by_transfer=FLAG),
    _Form(2, VoteReply, granted=FLAG, pre_vote=FLAG),
    _Form(3, Append, previous=ENTRY_ID, commit=NUMBER),
    _Form(4, AppendReply, match_index=NUMBER),
    _Form(5, AppendRejected, rejected_index=NUMBER, hint=ENTRY_ID),
    _Form(6, Heartbeat, commit=ENTRY_ID, match_index=NUMBER, round=NUMBER),
    _Form(7, HeartbeatReply, round=NUMBER),
    _Form(8, InstallSnapshot),
    _Form(9, TimeoutNow),
    _Form(10, Attach),
    _Form(11, ReadRequest, read_id=NUMBER),
    _Form(12, ReadReply, read_id=NUMBER, index=NUMBER),
)
_BY_MESSAGE = {form.message: form for form in _FORMS}
_BY_KIND = {form.kind: form for form in _FORMS}


def encode_message(message: Message) -> list[bytes]:
    """Pieces to be written one after the other: the data of entries is not copied."""
    form = _BY_MESSAGE[type(message)]
    pieces = [_HEAD.pack(form.kind, message.sender, message.term) + form.pack(message)]
    match message:
        case Append(entries=entries):
            for entry in entries:
                pieces += encode_entry(entry)
        case InstallSnapshot(snapshot=snapshot):
            pieces += [_ENTRY_ID.pack(snapshot.last.index, snapshot.last.term), snapshot.voters.encode()]
    return pieces


def decode_message(data: Bytes) -> Message:
    view = memoryview(data)
    try:
        kind, sender, term = _HEAD.unpack_from(view)
        form = _BY_KIND[kind]
        fields = form.unpack(view, _HEAD.size)
        fields |= _decode_tail(form.message, fields, view[_HEAD.size + form.packed.size :])
    except (struct.error, KeyError) as error:
        raise ProtocolError(f"not a message of the metadata quorum: {error}") from error
    return form.message(sender=sender, term=term, **fields)


def _decode_tail(message: type[Message], fields: dict[str, Any], tail: memoryview) -> dict[str, Any]:
    if message is Append:
        entries = decode_entries(tail)
        if any(entry.index != at for at, entry in enumerate(entries, fields["previous"].index + 1)):
            raise ProtocolError("entries that do not follow each other")
        return {"entries": entries}
    if message is InstallSnapshot:
        last = EntryId(*_ENTRY_ID.unpack_from(tail))
        return {"snapshot": Snapshot(last=last, voters=VoterSet.decode(bytes(tail[_ENTRY_ID.size :])))}
    if tail:
        raise ProtocolError(f"{len(tail)} bytes are left after a {message.__name__}")
    return {}


def encode_entry(entry: Entry) -> tuple[bytes, bytes]:
    return _ENTRY.pack(entry.index, entry.term, entry.kind, len(entry.data)), entry.data


def decode_entries(view: memoryview) -> Sequence[Entry]:
    """All that `view` holds."""
    entries = []
    at = 0
    while at < len(view):
        index, term, kind, size = _ENTRY.unpack_from(view, at)
        at += _ENTRY.size
        if size > len(view) - at or kind not in _ENTRY_KINDS:
            raise ProtocolError(f"entry {index} of kind {kind} claims {size} bytes, and {len(view) - at} are left")
        entries.append(Entry(index=index, term=term, kind=EntryKind(kind), data=bytes(view[at : at + size])))
        at += size
    return entries
