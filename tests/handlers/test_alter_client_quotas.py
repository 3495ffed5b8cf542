from ottla.errors import ErrorCode
from ottla.handlers.alter_client_quotas import alter_client_quotas
from ottla.protocol.codec import encode
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from tests.handlers.admin_node import AdminNode, answered

REQUEST = AlterClientQuotasRequest(
    entries=[
        RequestEntryData(
            entity=[EntityData(entity_type=kind, entity_name="x")], ops=[OpData(key="producer_byte_rate", value=9.0)]
        )
        for kind in ("user", "planet")
    ]
)


def test_each_entity_has_an_answer() -> None:
    node = AdminNode()
    answer = answered(alter_client_quotas(REQUEST, node.context(1)))
    assert [entry.error_code for entry in answer.entries] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert node.image.client_quotas == {(("user", "x"),): {"producer_byte_rate": 9.0}}
    encode(answer, 1)


def test_where_nothing_can_be_written_every_entity_is_told_so() -> None:
    node = AdminNode()
    node.fails = True
    answer = answered(alter_client_quotas(REQUEST, node.context(1)))
    assert [entry.error_code for entry in answer.entries] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert [entry.entity for entry in answer.entries] == [entry.entity for entry in REQUEST.entries]
