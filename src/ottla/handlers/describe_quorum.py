"""DescribeQuorum: the leader of the metadata quorum, its voters and observers, and how far each of them is."""

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.metadata.internal_topics import METADATA_TOPIC
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.services import QuorumReplica, QuorumView, RequestContext


@handles(DescribeQuorumRequest, controller=True)
def describe_quorum(request: DescribeQuorumRequest, ctx: RequestContext) -> DescribeQuorumResponse:
    view = ctx.services.quorum.describe()
    topics = [
        ResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[_partition(topic.topic_name, wanted.partition_index, view) for wanted in topic.partitions],
        )
        for topic in request.topics
    ]
    return DescribeQuorumResponse(topics=topics, nodes=_nodes(view, ctx))


def _partition(topic: str, index: int, view: QuorumView) -> ResponsePartitionData:
    if topic != METADATA_TOPIC or index != 0:
        error = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return ResponsePartitionData(partition_index=index, error_code=error.code, error_message=str(error))
    return ResponsePartitionData(
        partition_index=index,
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        high_watermark=view.high_watermark,
        current_voters=[_replica(replica) for replica in view.voters],
        observers=[_replica(replica) for replica in view.observers],
    )


def _replica(replica: QuorumReplica) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _nodes(view: QuorumView, ctx: RequestContext) -> list[Node]:
    brokers = ctx.image.brokers
    return [
        Node(
            node_id=voter.node_id,
            listeners=[
                Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)
                for endpoint in brokers[voter.node_id].endpoints
            ],
        )
        for voter in view.voters
        if voter.node_id in brokers
    ]
