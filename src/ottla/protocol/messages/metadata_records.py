"""The records of `__cluster_metadata`: everything that all brokers must agree on, in the format of Kafka's KRaft.

A record is a byte string: frame version, key and version of the record, each a varint, then the record
(`ottla.protocol.versioned`).
"""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int8, int16, int32, int64, uint16
from ottla.protocol.schema import Data, Message, data, since, tagged


class BrokerEndpoint(Message):
    name: str = ""
    host: str = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class BrokerFeature(Message):
    name: str = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@data(key=0, versions=(0, 3), flexible_from=0)
class RegisterBrokerRecord(Data):
    """A broker has registered.

    v1   whether it is shutting down
    v2   whether it is migrating from ZooKeeper (never, here)
    v3   the ids of its log directories
    """

    broker_id: int32 = 0
    is_migrating_zk_broker: bool = since(2)
    incarnation_id: Uuid = NO_UUID
    broker_epoch: int64 = 0
    end_points: Sequence[BrokerEndpoint] = ()
    features: Sequence[BrokerFeature] = ()
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: bool = since(1)
    log_dirs: Sequence[Uuid] = tagged(0, since=3)


@data(key=1, versions=(0, 0), flexible_from=0)
class UnregisterBrokerRecord(Data):
    """A broker will not come back."""

    broker_id: int32 = 0
    broker_epoch: int64 = 0


@data(key=2, versions=(0, 0), flexible_from=0)
class TopicRecord(Data):
    """A topic."""

    name: str = ""
    topic_id: Uuid = NO_UUID


@data(key=3, versions=(0, 2), flexible_from=0)
class PartitionRecord(Data):
    """A partition of a topic, whole.

    v1   the log directories of its replicas
    v2   replicas that may lead although they are not in sync
    """

    partition_id: int32 = -1
    topic_id: Uuid = NO_UUID
    replicas: Sequence[int32] = ()
    isr: Sequence[int32] = ()
    removing_replicas: Sequence[int32] = ()
    adding_replicas: Sequence[int32] = ()
    leader: int32 = -1
    leader_recovery_state: int8 = tagged(0)
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    directories: Sequence[Uuid] = since(1)
    eligible_leader_replicas: Sequence[int32] | None = tagged(1, since=2, default=None)
    last_known_elr: Sequence[int32] | None = tagged(2, since=2, default=None)


@data(key=4, versions=(0, 0), flexible_from=0)
class ConfigRecord(Data):
    """One setting of a resource; null removes it."""

    resource_type: int8 = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""


@data(key=5, versions=(0, 2), flexible_from=0)
class PartitionChangeRecord(Data):
    """What changed in a partition: what has its default has not changed.

    v1   the log directories of its replicas
    v2   replicas that may lead although they are not in sync
    """

    partition_id: int32 = -1
    topic_id: Uuid = NO_UUID
    isr: Sequence[int32] | None = tagged(0, default=None)
    leader: int32 = tagged(1, default=-2)
    replicas: Sequence[int32] | None = tagged(2, default=None)
    removing_replicas: Sequence[int32] | None = tagged(3, default=None)
    adding_replicas: Sequence[int32] | None = tagged(4, default=None)
    leader_recovery_state: int8 = tagged(5, default=-1)
    directories: Sequence[Uuid] | None = tagged(8, since=1, default=None)
    eligible_leader_replicas: Sequence[int32] | None = tagged(6, since=2, default=None)
    last_known_elr: Sequence[int32] | None = tagged(7, since=2, default=None)


@data(key=7, versions=(0, 0), flexible_from=0)
class FenceBrokerRecord(Data):
    """A broker may not lead any more."""

    id: int32 = 0
    epoch: int64 = 0


@data(key=8, versions=(0, 0), flexible_from=0)
class UnfenceBrokerRecord(Data):
    """A broker may lead again."""

    id: int32 = 0
    epoch: int64 = 0


@data(key=9, versions=(0, 0), flexible_from=0)
class RemoveTopicRecord(Data):
    """A topic is deleted, with all that belongs to it."""

    topic_id: Uuid = NO_UUID


@data(key=11, versions=(0, 0), flexible_from=0)
class UserScramCredentialRecord(Data):
    """A user's SCRAM credentials for one mechanism."""

    name: str = ""
    mechanism: int8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int32 = 0


@data(key=12, versions=(0, 0), flexible_from=0)
class FeatureLevelRecord(Data):
    """The finalized version of a feature; 0 removes it."""

    name: str = ""
    feature_level: int16 = 0


class EntityData(Message):
    entity_type: str = ""
    entity_name: str | None = ""


@data(key=14, versions=(0, 0), flexible_from=0)
class ClientQuotaRecord(Data):
    """One quota of an entity."""

    entity: Sequence[EntityData] = ()
    key: str = ""
    value: float = 0.0
    remove: bool = False


@data(key=15, versions=(0, 0), flexible_from=0)
class ProducerIdsRecord(Data):
    """A block of producer ids has been given away, up to the next one."""

    broker_id: int32 = 0
    broker_epoch: int64 = -1
    next_producer_id: int64 = 0


@data(key=17, versions=(0, 2), flexible_from=0)
class BrokerRegistrationChangeRecord(Data):
    """What changed in a broker's registration: 1 is yes, -1 is no, 0 is no change.

    v1   whether it is shutting down
    v2   the ids of its log directories
    """

    broker_id: int32 = 0
    broker_epoch: int64 = 0
    fenced: int8 = tagged(0)
    in_controlled_shutdown: int8 = tagged(1, since=1)
    log_dirs: Sequence[Uuid] = tagged(2, since=2)


@data(key=18, versions=(0, 0), flexible_from=0)
class AccessControlEntryRecord(Data):
    """An access rule."""

    id: Uuid = NO_UUID
    resource_type: int8 = 0
    resource_name: str = ""
    pattern_type: int8 = 0
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    permission_type: int8 = 0


@data(key=19, versions=(0, 0), flexible_from=0)
class RemoveAccessControlEntryRecord(Data):
    """An access rule is gone."""

    id: Uuid = NO_UUID


@data(key=20, versions=(0, 0), flexible_from=0)
class NoOpRecord(Data):
    """Nothing: it only moves the log forward."""

    pass


@data(key=22, versions=(0, 0), flexible_from=0)
class RemoveUserScramCredentialRecord(Data):
    """A user's SCRAM credentials for one mechanism are gone."""

    name: str = ""
    mechanism: int8 = 0


@data(key=23, versions=(0, 0), flexible_from=0)
class BeginTransactionRecord(Data):
    """What follows counts only together."""

    name: str | None = tagged(0, default=None)


@data(key=24, versions=(0, 0), flexible_from=0)
class EndTransactionRecord(Data):
    """The records since the begin count."""

    pass


@data(key=25, versions=(0, 0), flexible_from=0)
class AbortTransactionRecord(Data):
    """The records since the begin do not count."""

    reason: str | None = tagged(0, default=None)


class ControllerEndpoint(Message):
    name: str = ""
    host: str = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class ControllerFeature(Message):
    name: str = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@data(key=27, versions=(0, 0), flexible_from=0)
class RegisterControllerRecord(Data):
    """A controller has registered."""

    controller_id: int32 = 0
    incarnation_id: Uuid = NO_UUID
    zk_migration_ready: bool = False
    end_points: Sequence[ControllerEndpoint] = ()
    features: Sequence[ControllerFeature] = ()
