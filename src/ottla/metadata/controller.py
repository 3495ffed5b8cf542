"""The controller: the one place where the cluster's metadata is changed.

Each request method reads the image and returns what should be written and answered; `replay` alone changes state (see
`ottla.replicated`). The decisions themselves are in the modules by role; this is where they get what they look at.

The runtime, for each request: append `records`, `replay` them in order, take the `image` and the `changes`, and when
the records are durable show both to the node and answer.
"""

from collections.abc import Callable

from ottla.config import BrokerConfig
from ottla.metadata import brokers, client_quotas, config_changes, producer_ids, topic_changes, topic_creation
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding import Deciding
from ottla.metadata.image import MetadataImage
from ottla.metadata.producer_ids import ProducerIdBlock
from ottla.metadata.records import MetadataRecord
from ottla.metadata.state import Changes, MetadataState
from ottla.ports import Random
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.replicated import Result


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
        self._state = MetadataState(image)

    def activate(self, now_ms: int) -> None:
        """From now on this node decides, alone: brokers have their whole session to find it."""

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

    def next_deadline_ms(self) -> int | None:
        """Nothing here happens by time alone."""
        return None

    def tick(self, now_ms: int) -> Result[MetadataRecord, None]:
        return Result()

    def _deciding(self) -> Deciding:
        return Deciding(
            config=self._config,
            image=self._state.image,
            random=self._random,
            colliding_names=self._state.colliding_names,
        )

    # Brokers

    def register_broker(self, registration: BrokerRegistration) -> Result[MetadataRecord, int]:
        """Answers with the broker's epoch."""
        return brokers.register_broker(self._deciding(), registration)

    def allocate_producer_ids(self, broker_id: int) -> Result[MetadataRecord, ProducerIdBlock]:
        return producer_ids.allocate_producer_ids(self._deciding(), broker_id)

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

    # Configs and quotas

    def alter_configs(self, request: AlterConfigsRequest) -> Result[MetadataRecord, AlterConfigsResponse]:
        return config_changes.alter_configs(self._deciding(), request)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Result[MetadataRecord, IncrementalAlterConfigsResponse]:
        return config_changes.incremental_alter_configs(self._deciding(), request)

    def alter_client_quotas(
        self, request: AlterClientQuotasRequest
    ) -> Result[MetadataRecord, AlterClientQuotasResponse]:
        return client_quotas.alter_client_quotas(self._deciding(), request)
