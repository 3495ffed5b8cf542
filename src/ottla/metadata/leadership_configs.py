"""Configs that decide about leaders: what changes at once when they do.

`min.insync.replicas` goes down: a leader may commit records without replicas that were eligible until then, from the
moment it learns of it. So these cease to be eligible in the same batch.

It goes up: who leaves the in-sync replicas is eligible from now on, but a leader that does not know of it yet commits
without them. So the partition gets a new epoch in the same batch: what a leader asks for that does not know this epoch,
and so not the config either, is refused.

`unclean.leader.election.enable` is switched on: partitions that wait for a replica with all their data wait no longer.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from ottla.metadata.deciding import Deciding, NewRecords
from ottla.metadata.image import NO_LEADER, PartitionImage, ResourceType, TopicImage
from ottla.metadata.leadership import Ballot, Rules
from ottla.metadata.records import MetadataRecord
from ottla.metadata.state import MetadataState
from ottla.metadata.topic_configs import MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION
from ottla.protocol.messages.metadata_records import ConfigRecord, PartitionChangeRecord
from ottla.replicated import Result

T = TypeVar("T")

DECISIVE = frozenset({MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION})


def with_leadership(deciding: Deciding, result: Result[MetadataRecord, T]) -> Result[MetadataRecord, T]:
    """The result of a change of configs, and what follows from it for partitions."""
    decisive = [record for record in result.records if isinstance(record, ConfigRecord) and record.name in DECISIVE]
    if not decisive:
        return result
    new = NewRecords()
    new.add(result.records)
    after = _deciding_after(deciding, decisive)
    rules, ballot = Rules(deciding), Ballot(after)
    for topic in _topics(after, decisive):
        is_raised = rules.of(topic.name).min_insync_replicas < ballot.rules.of(topic.name).min_insync_replicas
        for record in _changes(topic, ballot, is_raised=is_raised):
            new.require_room(1)
            new.add([record])
    return replace(result, records=new.records)


def _deciding_after(deciding: Deciding, records: list[ConfigRecord]) -> Deciding:
    state = MetadataState(deciding.image)
    for record in records:
        state.replay(record)
    return replace(deciding, image=state.image)


def _topics(deciding: Deciding, records: list[ConfigRecord]) -> Iterator[TopicImage]:
    """Those whose own configs change, or all if it is a broker's."""
    topics = deciding.image.topics
    if any(record.resource_type == ResourceType.BROKER for record in records):
        yield from topics.values()
    else:
        yield from (topics[name] for name in dict.fromkeys(record.resource_name for record in records))


def _changes(topic: TopicImage, ballot: Ballot, *, is_raised: bool) -> Iterator[PartitionChangeRecord]:
    for index, partition in topic.partitions.items():
        record = ballot.change(topic.topic_id, index) if _is_concerned(partition) else None
        if record is None and is_raised and len(partition.replicas) > 1:
            record = PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, isr=partition.isr)
        if record is not None:
            yield record


def _is_concerned(partition: PartitionImage) -> bool:
    return partition.leader == NO_LEADER or bool(partition.eligible_leader_replicas)
