"""The records of `__transaction_state`: what a coordinator knows about its transactional ids.

Key and value begin with the int16 of their version (`ottla.protocol.versioned`). A value that is null removes.
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32, int64
from ottla.protocol.schema import Data, Message, data, tagged


@data(versions=(0, 0))
class TransactionLogKey(Data):
    """Which transactional id."""

    transactional_id: str = ""


class PartitionsSchema(Message):
    topic: str = ""
    partition_ids: Sequence[int32] = ()


@data(versions=(0, 1), flexible_from=1)
class TransactionLogValue(Data):
    """The producer and the state of its transaction.

    v1   is the first flexible version; the producer ids before and after this one, the epoch of the one after, and the
         version of transactions
    """

    producer_id: int64 = 0
    previous_producer_id: int64 = tagged(0, since=1, default=-1)
    next_producer_id: int64 = tagged(1, since=1, default=-1)
    producer_epoch: int16 = 0
    transaction_timeout_ms: int32 = 0
    transaction_status: int8 = 0
    transaction_partitions: Sequence[PartitionsSchema] | None = ()
    transaction_last_update_timestamp_ms: int64 = 0
    transaction_start_timestamp_ms: int64 = 0
    client_transaction_version: int16 = tagged(2, since=1)
    next_producer_epoch: int16 = tagged(3, since=1, default=-1)
