"""Topics that the cluster makes for itself."""

from ottla.config import COMPACT, BrokerConfig, GroupConfig, TransactionConfig
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


def transaction_state_topic(config: TransactionConfig) -> CreatableTopic:
    """`__transaction_state`: transactional ids and their transactions."""
    return CreatableTopic(
        name=TRANSACTION_STATE,
        num_partitions=config.transaction_state_log_num_partitions,
        replication_factor=config.transaction_state_log_replication_factor,
        configs=[
            CreatableTopicConfig(name="cleanup.policy", value=COMPACT),
            CreatableTopicConfig(name="compression.type", value="uncompressed"),
            CreatableTopicConfig(name="segment.bytes", value=str(config.transaction_state_log_segment_bytes)),
        ],
    )


def needed_topic(name: str, config: BrokerConfig) -> CreatableTopic | None:
    """An internal topic that comes to be by first use; None for names that nobody here needs."""
    if name == CONSUMER_OFFSETS:
        return consumer_offsets_topic(config.groups)
    if name == TRANSACTION_STATE:
        return transaction_state_topic(config.transactions)
    return None
