"""What the OpenAPI document allows is answered as such, or refused with a sentence, and never with a 500."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok

from tests.http_api.rig import HttpNode
from tests.http_api.test_operations import ROUTES

EXAMPLES = 8
ENDLESS = "/stream"
UNEXPECTED = 500


def test_no_operation_breaks_whatever_it_is_sent(node: HttpNode) -> None:
    schema = schemathesis.openapi.from_dict(node.client.get("/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert {(operation.path, operation.method) for operation in operations} == {
        (path, method) for path, methods in ROUTES.items() for method in methods
    }
    for operation in operations:
        _try(node, operation)


def _try(node: HttpNode, operation: schemathesis.APIOperation[Any, Any, Any, Any]) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def send(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        if operation.path.endswith(ENDLESS):
            asked = case.as_transport_kwargs(base_url=node.url)
            with node.client.stream(asked["method"], asked["url"], params=asked["params"]) as tail:
                assert tail.status_code != UNEXPECTED
            return
        answer = case.call(base_url=node.url, timeout=60)
        assert answer.status_code != UNEXPECTED, (case.method, case.formatted_path, case.body, answer.text)
        if answer.status_code >= 400:
            told = answer.json()["error"]
            assert told["code"]
            assert told["message"]

    send()
