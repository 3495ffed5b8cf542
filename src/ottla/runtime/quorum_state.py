"""`quorum/quorum-state`: the term that this node has entered, and whom it voted for in it.

Kafka's file of that name, in a directory of its own: a metadata log whose directory a crash has left half made is made
anew from the journal, and a vote must not go with it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ottla.errors import CorruptLogError
from ottla.raft.entry import HardState
from ottla.storage.pending import DirectorySync, ReplaceFile

if TYPE_CHECKING:
    from ottla.ports import Disk
    from ottla.storage.pending import Syncable

DIRECTORY = "quorum"
PATH = f"{DIRECTORY}/quorum-state"
DATA_VERSION = 1
NOBODY = -1


def read_hard_state(disk: Disk) -> HardState | None:
    """None if this node has never voted. CorruptLogError if that can't be known."""
    try:
        file = disk.open(PATH)
    except (FileNotFoundError, NotADirectoryError):
        return None
    data = file.pread(file.size(), 0)
    file.close()
    try:
        fields = json.loads(data)
        term, vote = int(fields["leaderEpoch"]), int(fields["votedId"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLogError(
            f"{PATH} can't be read ({error}): this node does not know whom it voted for. If the metadata quorum has"
            " other voters, remove this node from it, and let it join again with an empty data directory"
        ) from error
    return HardState(term=term, vote=None if vote == NOBODY else vote)


def hard_state_files(disk: Disk, hard_state: HardState) -> list[Syncable]:
    """What to sync so that the state is on disk."""
    fields = {
        "leaderId": NOBODY,
        "leaderEpoch": hard_state.term,
        "votedId": NOBODY if hard_state.vote is None else hard_state.vote,
        "data_version": DATA_VERSION,
    }
    return [ReplaceFile(disk, PATH, json.dumps(fields).encode()), DirectorySync(disk, DIRECTORY)]


def make_directory(disk: Disk) -> None:
    """Once, before anything is put into it: its name is on disk from then on."""
    if not disk.exists(DIRECTORY):
        disk.make_directory(DIRECTORY)
        disk.sync_directory("")
