import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.producer_ids import BLOCK_SIZE, PRODUCER_ID_MAX
from ottla.protocol.messages.metadata_records import ProducerIdsRecord
from tests.metadata.cluster import a_controller, commit


def test_blocks_follow_each_other_and_never_overlap() -> None:
    controller = a_controller(2)
    blocks = [commit(controller, controller.allocate_producer_ids(broker)) for broker in (1, 2, 1)]
    assert [(block.first, block.end) for block in blocks] == [(0, 1_000), (1_000, 2_000), (2_000, 3_000)]
    assert controller.image.next_producer_id == 3 * BLOCK_SIZE


def test_a_block_says_who_has_it() -> None:
    controller = a_controller(2)
    (record,) = controller.allocate_producer_ids(2).records
    assert record == ProducerIdsRecord(broker_id=2, broker_epoch=1, next_producer_id=1_000)


def test_a_broker_that_is_not_registered_gets_none() -> None:
    with pytest.raises(BrokerError) as caught:
        a_controller().allocate_producer_ids(9)
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_ids_do_not_begin_anew_when_they_are_used_up() -> None:
    controller = a_controller()
    controller.replay(ProducerIdsRecord(next_producer_id=PRODUCER_ID_MAX - 10))
    with pytest.raises(BrokerError, match="used up"):
        controller.allocate_producer_ids(1)
