"""The controller: the one place where the cluster's metadata is changed.

Each request method reads the image and returns what should be written and answered; `replay` alone changes state (see
`ottla.replicated`). The decisions themselves are in the modules by role; this is where they get what they look at.

The runtime, for each request: append `records`, `replay` them in order, take the `image` and the `changes`, and when
the records are durable show both to the node and answer.
"""

from collections.abc import Callable, Iterable

from ottla.config import BrokerConfig
from ottla.metadata import (
    alter_partition,
    brokers,
    client_quotas,
    config_changes,
    elect_leaders,
    feature_updates,
    heartbeats,
    leadership,
    producer_ids,
    reassignments,
    topic_changes,
    topic_creation,
)
from ottla.metadata.balancer import Balancer
from ottla.metadata.balancer_leaders import Loads
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding import Deciding
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.holdings import Holdings
from ottla.metadata.image import MetadataImage, empty_image
from ottla.metadata.leadership_configs import with_leadership
from ottla.metadata.producer_ids import ProducerIdBlock
from ottla.metadata.records import MetadataRecord
from ottla.metadata.sessions import Sessions
from ottla.metadata.state import Changes, MetadataState
from ottla.ports import Random
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.replicated import Result

REST_MS = 10
"""After a tick that wrote something. What does not fit one decision leaves room for requests between its parts; and
should the log not take any more just then, it is not asked again and again."""


class Controller:
    def __init__(
        self,
        config: BrokerConfig,
        random: Random,
        *,
        image: MetadataImage | None = None,
        end_offset: Callable[[], int] = lambda: 0,
    ) -> None:
        """Decides from `image` on: all that is committed when this node becomes the controller.

        `end_offset` tells the offset that the next record of the metadata log will have, in the same count as the
        `current_metadata_offset` of heartbeats (the last offset that a broker has applied).
        """
        self._config = config
        self._random = random
        self._end_offset = end_offset
        image = empty_image(SUPPORTED_FEATURES) if image is None else image
        self._holdings = Holdings(image)
        self._state = MetadataState(image, watcher=self._holdings)
        self._sessions = Sessions(config)
        self._elections_due = False
        self._rests_until_ms = 0
        self._balancer = Balancer(config)

    # State

    @property
    def image(self) -> MetadataImage:
        """Everything that has been replayed."""
        return self._state.image

    def take_changes(self) -> Changes:
        """What has been replayed since this was last called, for those who must act on it."""
        return self._state.take_changes()

    def replay(self, record: MetadataRecord) -> None:
        self._state.replay(record)

    def _deciding(self) -> Deciding:
        return Deciding(
            config=self._config,
            image=self._state.image,
            random=self._random,
            holdings=self._holdings,
            colliding_names=self._state.colliding_names,
        )

    # Time

    def activate(self, now_ms: int) -> None:
        """From now on this node decides, alone. Brokers in service have their whole session to find it.

        What the last controller may have left half done is done at the first `tick`.
        """
        unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
        self._sessions.begin(unfenced, now_ms, offset=self._end_offset() - 1)
        self._elections_due = True

    def next_deadline_ms(self) -> int | None:
        if self._elections_due:
            return self._rests_until_ms
        deadlines = (self._sessions.next_look_ms(), self._balancer.next_deadline_ms(self.image))
        first_ms = min((deadline for deadline in deadlines if deadline is not None), default=None)
        return None if first_ms is None else max(first_ms, self._rests_until_ms)

    def tick(self, now_ms: int) -> Result[MetadataRecord, None]:
        """Brokers that are silent are fenced; partitions get a leader if they can, and go where they should be."""
        deciding = self._deciding()
        records = heartbeats.fence_silent(deciding, self._sessions, now_ms)
        if not records and self._elections_due:
            records = leadership.for_leaderless(deciding)
            self._elections_due = bool(records)
        records = records or self._balancer.tick(deciding.image, self._holdings.reassigning, now_ms)
        if records:
            self._rests_until_ms = now_ms + REST_MS
        return Result(records=records)

    def suspect(self, dead: Iterable[int], ended: Iterable[int] = ()) -> Result[MetadataRecord, bool]:
        """Gossip takes these brokers for dead, and no others: for them `broker_lease_ms` is enough silence. Those whose
        processes have `ended` are not waited for at all."""
        self._sessions.suspect(dead, ended)
        return Result(response=True)

    def carry(self, loads: Loads) -> Result[MetadataRecord, bool]:
        """Who carries how much, as far as anybody knows: leaders are moved by it."""
        self._balancer.loads = loads
        return Result(response=True)

    # Brokers

    def register_broker(self, registration: BrokerRegistration, now_ms: int = 0) -> Result[MetadataRecord, int]:
        """Answers with the broker's epoch, or with `brokers.UNFINISHED`."""
        return brokers.register_broker(
            self._deciding(), self._sessions, registration, now_ms, offset=self._end_offset()
        )

    def heartbeat(
        self, request: BrokerHeartbeatRequest, now_ms: int
    ) -> Result[MetadataRecord, BrokerHeartbeatResponse]:
        result = heartbeats.heartbeat(self._deciding(), self._sessions, request, now_ms, offset=self._end_offset())
        if not leadership.is_whole(result.records):
            self._elections_due = True
        return result

    def unregister_broker(self, broker_id: int) -> Result[MetadataRecord, bool]:
        """Answers whether that was all; if not, it must be asked again."""
        return brokers.unregister_broker(self._deciding(), broker_id)

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int | None = None
    ) -> Result[MetadataRecord, ProducerIdBlock]:
        return producer_ids.allocate_producer_ids(self._deciding(), broker_id, broker_epoch)

    def update_features(self, request: UpdateFeaturesRequest) -> Result[MetadataRecord, UpdateFeaturesResponse]:
        return feature_updates.update_features(self._deciding(), request)

    # Leaders and in-sync replicas

    def alter_partition(self, request: AlterPartitionRequest) -> Result[MetadataRecord, AlterPartitionResponse]:
        return alter_partition.alter_partition(self._deciding(), request)

    def elect_leaders(self, request: ElectLeadersRequest) -> Result[MetadataRecord, ElectLeadersResponse]:
        return elect_leaders.elect_leaders(self._deciding(), request)

    # Topics

    def create_topics(
        self, request: CreateTopicsRequest, *, automatic: bool = False
    ) -> Result[MetadataRecord, CreateTopicsResponse]:
        """`automatic`: these topics come to be by first use, nobody has asked for them as such."""
        return topic_creation.create_topics(self._deciding(), request, automatic=automatic)

    def delete_topics(self, request: DeleteTopicsRequest) -> Result[MetadataRecord, DeleteTopicsResponse]:
        return topic_changes.delete_topics(self._deciding(), request)

    def create_partitions(self, request: CreatePartitionsRequest) -> Result[MetadataRecord, CreatePartitionsResponse]:
        return topic_changes.create_partitions(self._deciding(), request)

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> Result[MetadataRecord, AlterPartitionReassignmentsResponse]:
        return reassignments.alter_partition_reassignments(self._deciding(), request)

    # Configs and quotas

    def alter_configs(self, request: AlterConfigsRequest) -> Result[MetadataRecord, AlterConfigsResponse]:
        deciding = self._deciding()
        return with_leadership(deciding, config_changes.alter_configs(deciding, request))

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Result[MetadataRecord, IncrementalAlterConfigsResponse]:
        deciding = self._deciding()
        return with_leadership(deciding, config_changes.incremental_alter_configs(deciding, request))

    def alter_client_quotas(
        self, request: AlterClientQuotasRequest
    ) -> Result[MetadataRecord, AlterClientQuotasResponse]:
        return client_quotas.alter_client_quotas(self._deciding(), request)
