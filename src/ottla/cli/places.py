"""From a place that a person named to an offset in each partition."""

from collections.abc import Mapping, Sequence

from ottla.cli.failures import CommandError
from ottla.cli.times import Anchor, Position
from ottla.client.admin import Admin
from ottla.client.cluster import EARLIEST, LATEST
from ottla.types import TopicPartition


def partitions_of(cluster: Admin, topic: str, chosen: Sequence[int] | None) -> list[TopicPartition]:
    """Those of a topic's partitions that were chosen; all of them if none was."""
    there = [info.partition for info in cluster.describe_topic(topic).partitions]
    missing = sorted(set(chosen or ()) - set(there))
    if missing:
        raise CommandError(f"{topic} has no partition {missing[0]}", hint=f"They go from 0 to {len(there) - 1}.")
    return [TopicPartition(topic, partition) for partition in (there if chosen is None else chosen)]


def resolve(cluster: Admin, partitions: Sequence[TopicPartition], place: Position) -> dict[TopicPartition, int]:
    """The offset that `place` means in each partition, within what the partition holds.

    A moment younger than every record means the end.
    """
    starts = _offsets(cluster, partitions, EARLIEST)
    ends = _offsets(cluster, partitions, LATEST)
    wanted = _wanted(cluster, place, starts, ends)
    return {at: min(max(wanted[at], starts[at]), ends[at]) for at in partitions}


def within(cluster: Admin, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """`offsets`, each moved into what its partition holds."""
    starts = _offsets(cluster, list(offsets), EARLIEST)
    ends = _offsets(cluster, list(offsets), LATEST)
    return {at: min(max(offset, starts[at]), ends[at]) for at, offset in offsets.items()}


def _wanted(
    cluster: Admin, place: Position, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    match place.anchor:
        case Anchor.BEGINNING:
            return starts
        case Anchor.END:
            return ends
        case Anchor.OFFSET:
            return dict.fromkeys(starts, place.value)
        case Anchor.BEFORE_END:
            return {at: end - place.value for at, end in ends.items()}
        case Anchor.TIME:
            found = _offsets(cluster, list(starts), place.value)
            return {at: offset if offset >= 0 else ends[at] for at, offset in found.items()}


def _offsets(cluster: Admin, partitions: Sequence[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found = cluster.list_offsets(dict.fromkeys(partitions, timestamp))
    return {at: found[at].offset for at in partitions}
