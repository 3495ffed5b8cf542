"""Metadata: who the brokers are and who leads which partition; a missing topic may come to be by being asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ottla.errors import ErrorCode
from ottla.handlers.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, if_asked
from ottla.handlers.registry import handles
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.topic_names import is_valid_topic_name
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.services import Deferred, RequestContext, Services
from ottla.types import NO_TOPIC_ID

NOTHING_REFUSED: Mapping[str, int] = MappingProxyType({})
EMPTY_MEANS_ALL_UNTIL = 0


@handles(MetadataRequest)
def metadata(request: MetadataRequest, ctx: RequestContext) -> MetadataResponse | Deferred[MetadataResponse]:
    everything = request.topics is None or (not request.topics and ctx.api_version <= EMPTY_MEANS_ALL_UNTIL)
    services = ctx.services
    missing = [] if everything else list(_to_create(request, ctx))
    if not missing:
        settled = services.vanished.settled()
        if settled is None:
            return _response(request, services, everything=everything)
        return settled.then(lambda _: _response(request, services, everything=everything))
    return services.new_topics.ensure(missing).then(lambda refused: _response(request, services, refused=refused))


def _to_create(request: MetadataRequest, ctx: RequestContext) -> Iterator[str]:
    if not (request.allow_auto_topic_creation and ctx.config.auto_create_topics_enable):
        return
    topics = ctx.image.topics
    for topic in request.topics or ():
        if topic.name is not None and topic.topic_id == NO_TOPIC_ID and topic.name not in topics:
            yield topic.name


def _response(
    request: MetadataRequest,
    services: Services,
    *,
    everything: bool = False,
    refused: Mapping[str, int] = NOTHING_REFUSED,
) -> MetadataResponse:
    image = services.image
    alive = image.alive_brokers
    if everything:
        topics = [_topic(topic, request, alive) for topic in image.topics.values()]
    else:
        topics = [_asked_topic(wanted, request, image, alive, refused) for wanted in request.topics or ()]
    brokers = [
        MetadataResponseBroker(
            node_id=broker.broker_id,
            host=broker.endpoints[0].host,
            port=broker.endpoints[0].port,
            rack=broker.rack,
        )
        for broker in image.brokers.values()
        if not broker.fenced or services.vanished.is_listed(broker.broker_id)
    ]
    return MetadataResponse(
        brokers=brokers,
        cluster_id=services.cluster_id,
        controller_id=_whom_to_ask(brokers, services),
        topics=topics,
        cluster_authorized_operations=if_asked(CLUSTER_OPERATIONS, request.include_cluster_authorized_operations),
    )


def _whom_to_ask(brokers: Sequence[MetadataResponseBroker], services: Services) -> int:
    """The controller, or while clients can't reach one, this node: what it is asked for goes on to the next controller.

    A client that is told of nobody waits. librdkafka does so until its metadata is old, long after an election.
    """
    listed = {broker.node_id for broker in brokers}
    controller_id, node_id = services.controller_id, services.config.node_id
    return node_id if controller_id not in listed and node_id in listed else controller_id


def _asked_topic(
    wanted: MetadataRequestTopic,
    request: MetadataRequest,
    image: MetadataImage,
    alive: frozenset[int],
    refused: Mapping[str, int],
) -> MetadataResponseTopic:
    if wanted.topic_id != NO_TOPIC_ID:
        topic = image.topics_by_id.get(wanted.topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=wanted.topic_id, name=None)
        return _topic(topic, request, alive)
    name = wanted.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(topic, request, alive)
    code = refused.get(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_valid_topic_name(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=code, name=name)


def _topic(topic: TopicImage, request: MetadataRequest, alive: frozenset[int]) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(index, partition, alive) for index, partition in topic.partitions.items()],
        topic_authorized_operations=if_asked(TOPIC_OPERATIONS, request.include_topic_authorized_operations),
    )


def _partition(index: int, partition: PartitionImage, alive: frozenset[int]) -> MetadataResponsePartition:
    has_leader = partition.leader in alive
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=()
        if alive.issuperset(partition.replicas)
        else [node for node in partition.replicas if node not in alive],
    )
