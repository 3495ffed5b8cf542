"""Leaders and in-sync replicas when brokers come and go: sweeps over the partitions that this concerns."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import NamedTuple

from ottla.metadata.deciding import RECORDS_MAX, Deciding
from ottla.metadata.holdings import PartitionKey
from ottla.metadata.image import ALL_BROKERS, ResourceType
from ottla.metadata.partition_change import Election, change
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topic_configs import MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION, broker_log_config, topic_configs
from ottla.protocol.messages.metadata_records import PartitionChangeRecord
from ottla.types import TopicId

SWEEP_RECORDS_MAX = RECORDS_MAX - 1
"""One record is kept for what the sweep is about: the broker's own."""


class TopicRules(NamedTuple):
    """What a topic's configs say about its leaders."""

    min_insync_replicas: int
    unclean_election: bool


class Rules:
    """The rules of topics, each looked up once.

    Of `min.insync.replicas` only what the image says counts, for the topic or for all brokers. A node's own file may
    say another number than the file of whoever leads, and who is eligible must not depend on a number that is higher
    than the leader's.
    """

    def __init__(self, deciding: Deciding) -> None:
        self._image = deciding.image
        self._base = self._read(
            deciding.image.configs.get(ALL_BROKERS, {}),
            TopicRules(1, broker_log_config(deciding.config, deciding.image).unclean_leader_election_enable),
        )
        self._found: dict[str, TopicRules] = {}

    def of(self, topic: str) -> TopicRules:
        found = self._found.get(topic)
        if found is None:
            found = self._found[topic] = self._read(self._image.config_of(ResourceType.TOPIC, topic), self._base)
        return found

    @staticmethod
    def _read(configs: Mapping[str, str], base: TopicRules) -> TopicRules:
        known = topic_configs()
        wanted, unclean = configs.get(MIN_INSYNC_REPLICAS), configs.get(UNCLEAN_ELECTION)
        return TopicRules(
            base.min_insync_replicas if wanted is None else known[MIN_INSYNC_REPLICAS].topic.parse(wanted),
            base.unclean_election if unclean is None else known[UNCLEAN_ELECTION].topic.parse(unclean),
        )


class Ballot:
    """Changes partitions as the cluster stands, or as it will stand once some brokers have come or gone."""

    def __init__(self, deciding: Deciding, *, arriving: Iterable[int] = (), leaving: Iterable[int] = ()) -> None:
        self.rules = Rules(deciding)
        self._image = deciding.image
        active = {broker.broker_id for broker in deciding.image.brokers.values() if broker.is_active}
        self._active = active.union(arriving).difference(leaving)

    def change(
        self,
        topic_id: TopicId,
        index: int,
        *,
        isr: tuple[int, ...] | None = None,
        recovery: int | None = None,
        election: Election | None = None,
        lost: Collection[int] = (),
    ) -> PartitionChangeRecord | None:
        """`election`: as the topic is configured, unless given."""
        topic = self._image.topics_by_id[topic_id]
        rules = self.rules.of(topic.name)
        if election is None:
            election = Election.UNCLEAN if rules.unclean_election else Election.CLEAN
        return change(
            topic_id,
            index,
            topic.partitions[index],
            isr=isr,
            recovery=recovery,
            is_active=self._active.__contains__,
            min_insync_replicas=rules.min_insync_replicas,
            election=election,
            lost=lost,
        )


def without(deciding: Deciding, leaving: Iterable[int]) -> list[MetadataRecord]:
    """Brokers stop leading and leave the in-sync replicas, but for partitions that have no other replica at all."""
    leaving = frozenset(leaving)
    keys = {key for broker_id in leaving for key in deciding.holdings.shared_in_sync_at(broker_id)}
    ballot = Ballot(deciding, leaving=leaving)
    return _bounded(ballot.change(*key, isr=_isr_without(deciding, key, leaving)) for key in sorted(keys))


def without_data(deciding: Deciding, broker_id: int) -> list[MetadataRecord]:
    """A broker has lost what it had, or is gone for good: it is neither in sync nor eligible for anything any more."""
    lost = frozenset({broker_id})
    ballot = Ballot(deciding, leaving=lost)
    keys = sorted(deciding.holdings.held_by(broker_id))
    return _bounded(ballot.change(*key, isr=_isr_without(deciding, key, lost), lost=lost) for key in keys)


def with_arrival(deciding: Deciding, broker_id: int) -> list[MetadataRecord]:
    """A broker is back: partitions that had nobody to lead them may have a leader now."""
    ballot = Ballot(deciding, arriving=[broker_id])
    keys = deciding.holdings.leaderless & deciding.holdings.held_by(broker_id)
    return _bounded(ballot.change(*key) for key in sorted(keys))


def for_leaderless(deciding: Deciding) -> list[MetadataRecord]:
    """Every partition without a leader that can have one."""
    ballot = Ballot(deciding)
    return _bounded(ballot.change(*key) for key in sorted(deciding.holdings.leaderless))


def is_whole(records: Sequence[MetadataRecord]) -> bool:
    """Whether a sweep came to its end. If not, the next one goes on where it stopped, from what it has changed."""
    return len(records) < SWEEP_RECORDS_MAX


def _bounded(changes: Iterator[PartitionChangeRecord | None]) -> list[MetadataRecord]:
    return list(islice((record for record in changes if record is not None), SWEEP_RECORDS_MAX))


def _isr_without(deciding: Deciding, key: PartitionKey, gone: Set[int]) -> tuple[int, ...]:
    topic_id, index = key
    isr = deciding.image.topics_by_id[topic_id].partitions[index].isr
    return tuple(replica for replica in isr if replica not in gone)
