"""Topics that the cluster makes for itself."""

from ottla.config import COMPACT, GroupConfig
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})


def consumer_offsets_topic(config: GroupConfig) -> CreatableTopic:
    """`__consumer_offsets`: the groups and what they have committed."""
    return CreatableTopic(
        name=CONSUMER_OFFSETS,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs=[
            CreatableTopicConfig(name="cleanup.policy", value=COMPACT),
            CreatableTopicConfig(name="compression.type", value="producer"),
            CreatableTopicConfig(name="segment.bytes", value=str(config.offsets_topic_segment_bytes)),
        ],
    )
