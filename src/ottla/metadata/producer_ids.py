"""Producer ids are given to brokers in blocks, so that a new producer costs no write to the metadata log."""

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.brokers import require_epoch
from ottla.metadata.deciding import Deciding
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages.metadata_records import ProducerIdsRecord
from ottla.replicated import Result
from ottla.values import value

BLOCK_SIZE = 1_000
PRODUCER_ID_MAX = 2**63 - 1


@value
class ProducerIdBlock:
    first: int
    size: int = BLOCK_SIZE

    @property
    def end(self) -> int:
        """The first id after the block."""
        return self.first + self.size


def allocate_producer_ids(
    deciding: Deciding, broker_id: int, broker_epoch: int | None
) -> Result[MetadataRecord, ProducerIdBlock]:
    """The next block. Ids that a broker has not used when it stops are never used.

    Without an epoch it is the controller's own broker that asks, from inside the process.
    """
    if broker_epoch is None:
        broker = deciding.image.brokers.get(broker_id)
        if broker is None:
            raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"There is no broker {broker_id}.")
    else:
        broker = require_epoch(deciding.image, broker_id, broker_epoch)
    block = ProducerIdBlock(first=deciding.image.next_producer_id)
    if block.end > PRODUCER_ID_MAX:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are used up.")
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch, next_producer_id=block.end)
    return Result(records=[record], response=block)
