import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.controller_calls import ask_controller
from ottla.metadata.controller import Controller
from ottla.metadata.records import MetadataRecord
from ottla.replicated import Result
from tests.handlers.admin_node import AdminNode, answered


def told(error: BrokerError) -> str:
    return f"refused: {error.code.name}"


def granted(_: Controller) -> Result[MetadataRecord, str]:
    return Result(response="granted")


def test_what_the_controller_decides_is_the_answer() -> None:
    assert answered(ask_controller(AdminNode().context(), granted, told)) == "granted"


@pytest.mark.parametrize("fault", ["fails", "is_stopping"])
def test_where_nothing_can_be_written_the_refusal_is_the_answer(fault: str) -> None:
    node = AdminNode()
    setattr(node, fault, True)
    assert answered(ask_controller(node.context(), granted, told)) == "refused: KAFKA_STORAGE_ERROR"


def test_where_nothing_can_be_decided_the_refusal_is_the_answer() -> None:
    def refuse(_: Controller) -> Result[MetadataRecord, str]:
        raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED)

    assert answered(ask_controller(AdminNode().context(), refuse, told)) == "refused: TOPIC_DELETION_DISABLED"
