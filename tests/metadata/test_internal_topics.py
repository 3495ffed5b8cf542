from ottla.config import GroupConfig
from ottla.metadata.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, METADATA_TOPIC, consumer_offsets_topic


def test_the_offsets_topic_is_as_the_group_settings_say() -> None:
    config = GroupConfig(
        offsets_topic_num_partitions=5, offsets_topic_replication_factor=2, offsets_topic_segment_bytes=77
    )
    topic = consumer_offsets_topic(config)
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (CONSUMER_OFFSETS, 5, 2)
    assert {item.name: item.value for item in topic.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "77",
    }


def test_the_metadata_log_is_no_topic_that_clients_see() -> None:
    assert METADATA_TOPIC not in INTERNAL_TOPICS
