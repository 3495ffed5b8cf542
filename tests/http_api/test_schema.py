"""What the OpenAPI document allows is answered as such, or refused with a sentence, and never with a 500."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok

from tests.http_api.rig import HttpNode

EXAMPLES = 8
SKIPPED = ("/topics/{topic}/stream",)
"""A tail does not end."""
UNEXPECTED = 500


def test_no_operation_breaks_whatever_it_is_sent(node: HttpNode) -> None:
    schema = schemathesis.openapi.from_dict(node.client.get("/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) == 21
    for operation in operations:
        if operation.path not in SKIPPED:
            _try(node, operation)


def _try(node: HttpNode, operation: schemathesis.APIOperation[Any, Any, Any, Any]) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def send(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        answer = case.call(base_url=node.url, timeout=60)
        assert answer.status_code != UNEXPECTED, (case.method, case.formatted_path, case.body, answer.text)
        if answer.status_code >= 400:
            told = answer.json()["error"]
            assert told["code"]
            assert told["message"]

    send()
