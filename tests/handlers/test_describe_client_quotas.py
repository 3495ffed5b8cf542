import pytest

from ottla.errors import BrokerError
from ottla.handlers.alter_client_quotas import alter_client_quotas
from ottla.handlers.describe_client_quotas import describe_client_quotas
from ottla.protocol.codec import encode
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.handlers.admin_node import AdminNode


def test_what_was_set_is_told() -> None:
    node = AdminNode()
    entry = RequestEntryData(
        entity=[EntityData(entity_type="client-id", entity_name=None)], ops=[OpData(key="consumer_byte_rate", value=7)]
    )
    alter_client_quotas(AlterClientQuotasRequest(entries=[entry]), node.context())
    answer = describe_client_quotas(DescribeClientQuotasRequest(), node.context())
    (found,) = answer.entries or ()
    assert [(part.entity_type, part.entity_name) for part in found.entity] == [("client-id", None)]
    assert [(value.key, value.value) for value in found.values] == [("consumer_byte_rate", 7.0)]
    encode(answer, 0)
    encode(answer, 1)


def test_a_filter_that_makes_no_sense_is_an_error_of_the_whole_request() -> None:
    request = DescribeClientQuotasRequest(components=[ComponentData(entity_type="user", match_type=9, match=None)])
    with pytest.raises(BrokerError):
        describe_client_quotas(request, AdminNode().context())
