"""Records in, images out: the only code that changes metadata.

Replaying a record edits a draft; the first edit of a kind copies that dictionary, and asking for the image turns the
draft into the next image. So one batch of records costs one copy of what it touches (10,000 topics: about 0.1 ms),
however many records it has, and images that readers hold never change.

The controller owns one of these; in a cluster so does every broker that follows the metadata log.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from ottla.errors import broken
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import (
    BrokerImage,
    ConfigResource,
    Endpoint,
    FeaturesImage,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ResourceType,
    TopicImage,
    empty_image,
    quota_entity,
)
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topic_names import collision_key
from ottla.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ottla.types import TopicId

UNCHANGED_LEADER = -2
FENCE, UNFENCE = 1, -1


@dataclass(slots=True)
class Changes:
    """What differs between two images, for those who must act on it: open logs, delete files, follow other leaders."""

    topics_created: dict[str, TopicImage] = field(default_factory=dict)
    topics_changed: dict[str, TopicImage] = field(default_factory=dict)
    """Topics that were there before and have new partitions, leaders or in-sync replicas."""
    topics_deleted: list[TopicImage] = field(default_factory=list)
    configs: set[ConfigResource] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    client_quotas: bool = False
    features: bool = False

    def __bool__(self) -> bool:
        return bool(
            self.topics_created
            or self.topics_changed
            or self.topics_deleted
            or self.configs
            or self.brokers
            or self.client_quotas
            or self.features
        )


class _TopicDraft:
    """A topic that the current batch has created or changed."""

    __slots__ = ("name", "partitions")

    def __init__(self, name: str, partitions: dict[int, PartitionImage]) -> None:
        self.name = name
        self.partitions = partitions


class PartitionWatcher(Protocol):
    """Somebody who keeps partitions by other keys than the image does, and so must see each change."""

    def partition_changed(
        self, topic_id: TopicId, index: int, before: PartitionImage | None, after: PartitionImage | None
    ) -> None:
        """None before: the partition is new; None after: it is gone."""


class MetadataState:
    def __init__(self, image: MetadataImage | None = None, *, watcher: PartitionWatcher | None = None) -> None:
        """Goes on from `image`, or begins with nothing. The watcher is told of changes, not of what `image` holds."""
        self._image = empty_image(SUPPORTED_FEATURES) if image is None else image
        self._watcher = watcher
        self._changes = Changes()
        self.colliding_names: dict[str, str] = {}
        """Topics by what their names look like in metrics: no two may look alike."""
        for name in self._image.topics:
            self._note_name(name)
        self._clear_drafts()
        self._replayers: Mapping[type[Any], Callable[[Any], None]] = {
            TopicRecord: self._topic,
            PartitionRecord: self._partition,
            PartitionChangeRecord: self._partition_change,
            RemoveTopicRecord: self._remove_topic,
            ConfigRecord: self._config,
            ClientQuotaRecord: self._client_quota,
            ProducerIdsRecord: self._producer_ids,
            FeatureLevelRecord: self._feature_level,
            RegisterBrokerRecord: self._register_broker,
            BrokerRegistrationChangeRecord: self._change_broker,
            UnregisterBrokerRecord: self._unregister_broker,
        }

    def _clear_drafts(self) -> None:
        self._dirty = False
        self._topic_drafts: dict[TopicId, _TopicDraft] = {}
        self._removed: dict[TopicId, TopicImage] = {}
        self._brokers: dict[int, BrokerImage] | None = None
        self._configs: dict[ConfigResource, Mapping[str, str]] | None = None
        self._quotas: dict[QuotaEntity, Mapping[str, float]] | None = None
        self._features: FeaturesImage | None = None
        self._next_producer_id = self._image.next_producer_id
        self._next_broker_epoch = self._image.next_broker_epoch
        self._seen: dict[PartitionImage, PartitionImage] = {}

    def replay(self, record: MetadataRecord) -> None:
        self._dirty = True
        self._replayers[type(record)](record)

    @property
    def image(self) -> MetadataImage:
        """All that has been replayed."""
        self._refresh()
        return self._image

    def take_changes(self) -> Changes:
        """What has changed since this was last called."""
        self._refresh()
        taken, self._changes = self._changes, Changes()
        return taken

    def _refresh(self) -> None:
        if self._dirty:
            self._image = self._build()
            self._clear_drafts()

    # Topics

    def _topic(self, record: TopicRecord) -> None:
        self._topic_drafts[record.topic_id] = _TopicDraft(record.name, {})
        self._note_name(record.name)

    def _note_name(self, name: str) -> None:
        key = collision_key(name)
        if key is not None:
            self.colliding_names[key] = name

    def _draft(self, topic_id: TopicId) -> _TopicDraft:
        draft = self._topic_drafts.get(topic_id)
        if draft is None:
            topic = self._image.topics_by_id.get(topic_id) or broken(f"no topic {topic_id.hex()} in the metadata")
            draft = self._topic_drafts[topic_id] = _TopicDraft(topic.name, dict(topic.partitions))
        return draft

    def _partition(self, record: PartitionRecord) -> None:
        partition = PartitionImage(
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            partition_epoch=record.partition_epoch,
            adding_replicas=tuple(record.adding_replicas),
            removing_replicas=tuple(record.removing_replicas),
            leader_recovery_state=record.leader_recovery_state,
            eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            directories=tuple(record.directories),
        )
        # Partitions made together on few brokers are mostly alike: one object for all of them.
        self._put_partition(record.topic_id, record.partition_id, self._seen.setdefault(partition, partition))

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        before = self._draft(record.topic_id).partitions[record.partition_id]
        after = changed_partition(before, record)
        self._put_partition(record.topic_id, record.partition_id, self._seen.setdefault(after, after))

    def _put_partition(self, topic_id: TopicId, index: int, partition: PartitionImage) -> None:
        partitions = self._draft(topic_id).partitions
        if self._watcher is not None:
            self._watcher.partition_changed(topic_id, index, partitions.get(index), partition)
        partitions[index] = partition

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        draft = self._topic_drafts.pop(record.topic_id, None)
        topic = self._image.topics_by_id.get(record.topic_id)
        if topic is not None:
            self._removed[record.topic_id] = topic
        removed = draft or topic or broken(f"no topic {record.topic_id.hex()} to remove from the metadata")
        if self._watcher is not None:
            for index, partition in removed.partitions.items():
                self._watcher.partition_changed(record.topic_id, index, partition, None)
        self._remove_configs(ConfigResource(ResourceType.TOPIC, removed.name))
        self.colliding_names.pop(collision_key(removed.name) or "", None)

    # Configs, quotas, producer ids, features

    def _config(self, record: ConfigRecord) -> None:
        if self._configs is None:
            self._configs = dict(self._image.configs)
        resource = ConfigResource(record.resource_type, record.resource_name)
        _set_or_remove(self._configs, resource, record.name, record.value)
        self._changes.configs.add(resource)

    def _remove_configs(self, resource: ConfigResource) -> None:
        if self._configs is None and resource in self._image.configs:
            self._configs = dict(self._image.configs)
        if self._configs is not None:
            self._configs.pop(resource, None)

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        if self._quotas is None:
            self._quotas = dict(self._image.client_quotas)
        entity = quota_entity((part.entity_type, part.entity_name) for part in record.entity)
        _set_or_remove(self._quotas, entity, record.key, None if record.remove else record.value)
        self._changes.client_quotas = True

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        features = self._features or self._image.features
        finalized = {**features.finalized, record.name: record.feature_level}
        if record.feature_level == 0:
            del finalized[record.name]
        self._features = replace(features, finalized=finalized, epoch=features.epoch + 1)
        self._changes.features = True

    # Brokers

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._next_broker_epoch = max(self._next_broker_epoch, record.broker_epoch + 1)
        self._put_broker(
            BrokerImage(
                broker_id=record.broker_id,
                broker_epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                features={f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
                log_dirs=tuple(record.log_dirs),
            )
        )

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        changes: dict[str, Any] = {}
        if record.fenced in (FENCE, UNFENCE):
            changes["fenced"] = record.fenced == FENCE
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = True
        if record.log_dirs:
            changes["log_dirs"] = tuple(record.log_dirs)
        self._edit_broker(record.broker_id, **changes)

    def _edit_broker(self, broker_id: int, **changes: Any) -> None:
        brokers = self._image.brokers if self._brokers is None else self._brokers
        self._put_broker(replace(brokers[broker_id], **changes))

    def _put_broker(self, broker: BrokerImage) -> None:
        if self._brokers is None:
            self._brokers = dict(self._image.brokers)
        self._brokers[broker.broker_id] = broker
        self._changes.brokers.add(broker.broker_id)

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        """Its epoch counts as used even where the broker is not known: a snapshot tells of those who left like this."""
        self._next_broker_epoch = max(self._next_broker_epoch, record.broker_epoch + 1)
        if self._brokers is None:
            self._brokers = dict(self._image.brokers)
        self._brokers.pop(record.broker_id, None)
        self._changes.brokers.add(record.broker_id)

    # From drafts to the next image

    def _build(self) -> MetadataImage:
        topics, topics_by_id = self._image.topics, self._image.topics_by_id
        if self._topic_drafts or self._removed:
            topics, topics_by_id = self._build_topics()
        return MetadataImage(
            topics=topics,
            topics_by_id=topics_by_id,
            brokers=self._image.brokers if self._brokers is None else self._brokers,
            configs=self._image.configs if self._configs is None else self._configs,
            client_quotas=self._image.client_quotas if self._quotas is None else self._quotas,
            features=self._features or self._image.features,
            next_producer_id=self._next_producer_id,
            next_broker_epoch=self._next_broker_epoch,
        )

    def _build_topics(self) -> tuple[dict[str, TopicImage], dict[TopicId, TopicImage]]:
        topics, by_id = dict(self._image.topics), dict(self._image.topics_by_id)
        for topic_id, removed in self._removed.items():
            del topics[removed.name], by_id[topic_id]
            self._note_removed(removed)
        for topic_id, draft in self._topic_drafts.items():
            topic = TopicImage(name=draft.name, topic_id=topic_id, partitions=draft.partitions)
            self._note_present(topic, is_new=topic_id not in by_id)
            topics[draft.name] = by_id[topic_id] = topic
        return topics, by_id

    def _note_removed(self, topic: TopicImage) -> None:
        self._changes.topics_changed.pop(topic.name, None)
        if self._changes.topics_created.pop(topic.name, None) is None:
            self._changes.topics_deleted.append(topic)

    def _note_present(self, topic: TopicImage, *, is_new: bool) -> None:
        if is_new or topic.name in self._changes.topics_created:
            self._changes.topics_created[topic.name] = topic
        else:
            self._changes.topics_changed[topic.name] = topic


def changed_partition(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """A change names only what is new. Naming a leader, even the same one, starts a new leader epoch."""
    changes: dict[str, Any] = {"partition_epoch": partition.partition_epoch + 1}
    if record.leader != UNCHANGED_LEADER:
        changes |= {"leader": record.leader, "leader_epoch": partition.leader_epoch + 1}
    if record.leader_recovery_state >= 0:
        changes["leader_recovery_state"] = record.leader_recovery_state
    for name in _CHANGEABLE_LISTS:
        new = getattr(record, name)
        if new is not None:
            changes[name] = tuple(new)
    return replace(partition, **changes)


_CHANGEABLE_LISTS = (
    "replicas",
    "isr",
    "adding_replicas",
    "removing_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
    "directories",
)


K = TypeVar("K")
V = TypeVar("V")


def _set_or_remove(table: dict[K, Mapping[str, V]], key: K, name: str, value: V | None) -> None:
    """Change one value of one entry; an entry without values goes away. The old entry may be in somebody's image."""
    entry = dict(table.get(key, {}))
    if value is None:
        entry.pop(name, None)
    else:
        entry[name] = value
    if entry:
        table[key] = entry
    else:
        table.pop(key, None)
