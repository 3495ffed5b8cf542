"""Where a consumer starts in the partitions that it is given.

librdkafka would find that out by itself; but now and then a consumer that is given a partition again is first handed
records from where it was when it last had it, and then those from the committed offset: some that another member has
done, and some twice (decisions/0009). Partitions that come with their offsets are read from there and nowhere else.
"""

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as RawPartition

from ottla.client.librdkafka import logger
from ottla.client.settings import ConsumerConfig, OffsetResetPolicy

_LOGICAL = {OffsetResetPolicy.EARLIEST: OFFSET_BEGINNING, OffsetResetPolicy.LATEST: OFFSET_END}


def with_starts(raw: Any, raw_partitions: list[Any], config: ConsumerConfig) -> list[Any]:
    """The partitions with the group's committed offsets, or what `auto_offset_reset` says where there is none."""
    if not raw_partitions:
        return []
    timeout_s = config.request_timeout_ms / 1000
    try:
        found = raw.committed(raw_partitions, timeout_s)
        unknown = [partition for partition in found if partition.offset < 0]
        known = [partition for partition in found if partition.offset >= 0]
        return [*known, *_reset(raw, unknown, config.auto_offset_reset, timeout_s)]
    except KafkaException as failure:
        logger.warning("where to start is left to librdkafka: %s", failure.args[0].str())
        return raw_partitions


def _reset(raw: Any, raw_partitions: list[Any], policy: OffsetResetPolicy, timeout_s: float) -> list[Any]:
    if policy is OffsetResetPolicy.NONE or not raw_partitions:
        return raw_partitions  # librdkafka tells the program, through `poll`
    # The special offsets are special timestamps too: one request finds the ends of all partitions.
    wanted = [RawPartition(partition.topic, partition.partition, _LOGICAL[policy]) for partition in raw_partitions]
    ends = raw.offsets_for_times(wanted, timeout_s)
    return [RawPartition(end.topic, end.partition, end.offset) for end in ends]
