from ottla.config.cluster import Placement
from ottla.metadata.balancer_answers import image_of
from ottla.metadata.balancer_plan import Scope, plan_moves
from ottla.metadata.image import MetadataImage
from ottla.metadata.placement import placement_of
from ottla.metadata.reassignments import list_partition_reassignments, moved
from ottla.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.metadata.balancing import a_cluster, after, fenced, joining, marked, topic_id_of, with_topic, with_topics


def as_clients_see_it(image: MetadataImage) -> MetadataImage:
    metadata = MetadataResponse(
        topics=[
            MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=partition.leader,
                        leader_epoch=partition.leader_epoch,
                        replica_nodes=partition.replicas,
                        isr_nodes=partition.isr,
                    )
                    for index, partition in topic.partitions.items()
                ],
            )
            for topic in image.topics.values()
        ]
    )
    cluster = DescribeClusterResponse(
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=broker.endpoints[0].host,
                port=9092,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker in image.brokers.values()
        ]
    )
    reassignments = list_partition_reassignments(image, ListPartitionReassignmentsRequest())
    placements = {broker_id: placement_of(image, broker_id).value for broker_id in image.brokers}
    return image_of(metadata, cluster, reassignments, placements)


def test_a_plan_made_by_a_client_is_the_plan_of_the_controller() -> None:
    image = with_topics(a_cluster(5, racks=["a", "b", "c", "a", "b"]), 24, 7, replication_factor=3)
    image = with_topic(image, "t", (1, 2, 3))
    image = after(image, [moved(image, topic_id_of("t"), 0, (4, 2, 3))])
    image = marked(fenced(joining(image, 6, rack="c"), 5), Placement.DRAINING, 1)
    for scope in Scope:
        planned = plan_moves(image, scope=scope)
        assert planned.moves
        assert plan_moves(as_clients_see_it(image), scope=scope) == planned


def test_a_topic_that_could_not_be_told_of_is_left_out() -> None:
    metadata = MetadataResponse(topics=[MetadataResponseTopic(name="t", error_code=3)])
    request = ListPartitionReassignmentsRequest()
    answer = list_partition_reassignments(a_cluster(1), request)
    assert image_of(metadata, DescribeClusterResponse(), answer, {}).topics == {}
