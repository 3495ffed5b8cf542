"""Snapshots on their way from node to node, over the peers' connections.

A leader that no longer has the entries that a node needs offers it a snapshot. That node then asks for the file, piece
by piece, and gives the offer to Raft once it has all of it on disk. A piece that does not come is asked for again;
after a while the offer is forgotten, and the leader makes another.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ottla.errors import CorruptLogError
from ottla.raft.messages import InstallSnapshot, Message
from ottla.runtime.metadata_snapshot import SnapshotId, read_description
from ottla.runtime.peer_wire import (
    FrameKind,
    SnapshotPiece,
    SnapshotWanted,
    read_snapshot_piece,
    read_snapshot_wanted,
    snapshot_piece_frame,
    snapshot_wanted_frame,
)
from ottla.runtime.quorum_state import DIRECTORY

if TYPE_CHECKING:
    from ottla.ports import Disk, File
    from ottla.runtime.peers import Peers
    from ottla.runtime.quorum import Quorum
    from ottla.runtime.timers import Deadline, Timers

log = logging.getLogger(__name__)

PIECE_BYTES = 256 * 1024
ASK_AGAIN_MS = 1_000
ASK_TIMES_MAX = 10
PART = f"{DIRECTORY}/received.part"
"""One snapshot at a time is on its way here."""


class Arrival:
    """A snapshot that is being fetched."""

    __slots__ = ("asked", "directory_id", "file", "is_complete", "offer", "position", "size")

    def __init__(self, offer: InstallSnapshot, directory_id: bytes, file: File) -> None:
        self.offer = offer
        self.directory_id = directory_id
        self.file = file
        self.position = 0
        self.size: int | None = None
        self.asked = 0
        """How often the next piece has been asked for."""
        self.is_complete = False


class SnapshotTransfer:
    """Stands between the peers and the quorum: everything passes through, and offers of snapshots wait here."""

    def __init__(
        self,
        *,
        disk: Disk,
        peers: Peers,
        quorum: Quorum,
        timers: Timers,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
    ) -> None:
        self._disk = disk
        self._peers = peers
        self._quorum = quorum
        self._timers = timers
        self._loop = loop
        self._executor = executor
        self._arrival: Arrival | None = None
        self._alarm: Deadline | None = None
        peers.on_message = self._on_message
        peers.on_frame = self._on_frame

    def _on_message(self, message: Message, directory_id: bytes) -> None:
        if isinstance(message, InstallSnapshot) and self._quorum.lacks(message):
            self._offered(message, directory_id)
        else:
            self._quorum.step(message, directory_id)

    def _on_frame(self, node_id: int, kind: FrameKind, content: memoryview) -> None:
        if kind is FrameKind.SNAPSHOT_WANTED:
            self._send_piece(node_id, read_snapshot_wanted(content))
        elif kind is FrameKind.SNAPSHOT_PIECE:
            self._arrived(node_id, read_snapshot_piece(content))

    # Sending

    def _send_piece(self, to: int, wanted: SnapshotWanted) -> None:
        """If there is no such snapshot any more, the other will be offered a newer one."""
        for stored in self._quorum.store.snapshots:
            last = stored.snapshot.last
            if (last.index, last.term) == (wanted.index, wanted.term):
                self._peers.send_frame(to, snapshot_piece_frame(self._piece(stored.snapshot_id, wanted)))

    def _piece(self, snapshot_id: SnapshotId, wanted: SnapshotWanted) -> SnapshotPiece:
        file = self._disk.open(snapshot_id.path)
        size, data = file.size(), file.pread(PIECE_BYTES, max(0, wanted.position))
        file.close()
        return SnapshotPiece(
            index=wanted.index,
            term=wanted.term,
            end_offset=snapshot_id.end_offset,
            size=size,
            position=wanted.position,
            data=data,
        )

    # Receiving

    def _offered(self, offer: InstallSnapshot, directory_id: bytes) -> None:
        arrival = self._arrival
        if arrival is not None and (arrival.is_complete or arrival.offer.snapshot == offer.snapshot):
            if not arrival.is_complete:
                arrival.offer = offer  # of a newer term, perhaps of another leader
            return
        self.close()
        file = self._disk.open(PART, create=True)
        file.truncate(0)
        self._arrival = Arrival(offer, directory_id, file)
        self._ask()

    def _ask(self) -> None:
        arrival = self._arrival
        if arrival is None or arrival.is_complete:
            return
        arrival.asked += 1
        if arrival.asked > ASK_TIMES_MAX:
            self.close()
            return
        last = arrival.offer.snapshot.last
        wanted = SnapshotWanted(index=last.index, term=last.term, position=arrival.position)
        self._peers.send_frame(arrival.offer.sender, snapshot_wanted_frame(wanted))
        self._silence()
        self._alarm = self._timers.after_ms(ASK_AGAIN_MS, self._ask)

    def _arrived(self, node_id: int, piece: SnapshotPiece) -> None:
        arrival = self._arrival
        if arrival is None or arrival.is_complete or node_id != arrival.offer.sender:
            return
        last = arrival.offer.snapshot.last
        if (piece.index, piece.term, piece.position) != (last.index, last.term, arrival.position) or not piece.data:
            return
        try:
            arrival.position += arrival.file.pwritev([piece.data], arrival.position)
        except OSError as error:
            log.warning("there is no room for a snapshot of the metadata: %s", error)
            self.close()
            return
        arrival.asked = 0
        if arrival.position < piece.size:
            self._ask()
        else:
            self._silence()
            arrival.is_complete = True
            snapshot_id = SnapshotId(piece.end_offset, piece.term)
            self._executor.submit(self._put_in_place, arrival, snapshot_id)

    def _put_in_place(self, arrival: Arrival, snapshot_id: SnapshotId) -> None:
        """In a thread."""
        error: Exception | None = None
        try:
            arrival.file.sync()
            arrival.file.close()
            self._disk.rename(PART, snapshot_id.path)
            self._disk.sync_directory(DIRECTORY)
            found = read_description(self._disk, snapshot_id).snapshot
            if found != arrival.offer.snapshot:
                error = CorruptLogError(f"the snapshot was said to be {arrival.offer.snapshot}, and is {found}")
                self._disk.remove(snapshot_id.path)
        except (OSError, CorruptLogError) as failure:
            error = failure
        self._loop.call_soon_threadsafe(self._complete, arrival, error)

    def _complete(self, arrival: Arrival, error: Exception | None) -> None:
        if self._arrival is not arrival:
            return
        self._arrival = None
        if error is not None:
            log.warning("a snapshot of the metadata could not be put in place: %s", error)
        else:
            self._quorum.step(arrival.offer, arrival.directory_id)

    def _silence(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def close(self) -> None:
        self._silence()
        arrival, self._arrival = self._arrival, None
        if arrival is not None and not arrival.is_complete:
            arrival.file.close()
