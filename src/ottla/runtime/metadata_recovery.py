"""Which topics this node's logs may belong to, before it is known what the quorum has agreed on.

The journal is replayed when a node starts, and that can't wait for an election. But the end of the local metadata log
may not be committed: a topic whose removal stands there may live on, and its records must not be thrown away. So every
topic counts that the local log has ever named, unless its removal was carried out: then the journal says so, or its
directory belongs to a newer topic of the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.metadata.records import decode_record
from ottla.protocol.messages.metadata_records import RemoveTopicRecord, TopicRecord
from ottla.protocol.records import read_records
from ottla.raft.entry import EntryKind
from ottla.storage.directories import topic_id_in
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.ports import Disk
    from ottla.runtime.quorum_log import QuorumLog
    from ottla.types import TopicId

READ_BYTES = 1 << 20
KEY_AT = 1
"""In a metadata record, after the version of its frame: keys are small numbers, so each of the two is one byte."""
KEYS = frozenset({TopicRecord.api_key, RemoveTopicRecord.api_key})


class LocalTopics:
    def __init__(self, disk: Disk, stored: QuorumLog, image: MetadataImage) -> None:
        """`image` is what the snapshot holds, or anything newer."""
        self._disk = disk
        self._names = {topic_id: topic.name for topic_id, topic in image.topics_by_id.items()}
        self._removed: set[TopicId] = set()
        self._read(stored)

    def _read(self, stored: QuorumLog) -> None:
        at = stored.base.index + 1
        while at <= stored.last_index:
            for entry in stored.read(at, stored.last_index, READ_BYTES):
                if entry.kind is EntryKind.DATA:
                    self._note(entry.data)
                at = entry.index + 1

    def _note(self, batch: bytes) -> None:
        for record in read_records(batch):
            if record.value is not None and record.value[KEY_AT] in KEYS:
                match decode_record(record.key, record.value):
                    case TopicRecord(topic_id=topic_id, name=name):
                        self._names[topic_id] = name
                    case RemoveTopicRecord(topic_id=topic_id):
                        self._removed.add(topic_id)

    def find(self, topic_id: TopicId, index: int) -> TopicPartition | None:
        """The partition that a log with this id is of, if it may still be needed."""
        name = self._names.get(topic_id)
        if name is None:
            return None
        partition = TopicPartition(name, index)
        if topic_id in self._removed and topic_id_in(self._disk, str(partition)) not in (None, topic_id):
            return None
        return partition
