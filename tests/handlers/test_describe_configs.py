import pytest

from ottla.handlers.describe_configs import describe_configs
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tests.handlers.admin_node import AdminNode
from tests.metadata.cluster import create


@pytest.mark.parametrize("version", [1, 3, 4])
def test_the_configs_of_a_topic_are_told_in_every_version(version: int) -> None:
    node = AdminNode()
    create(node.state, "a", configs={"retention.ms": "5"})
    resource = DescribeConfigsResource(resource_type=2, resource_name="a", configuration_keys=["retention.ms"])
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    sent = encode(describe_configs(request, node.context(version)), version)
    ((config,),) = (result.configs for result in decode(DescribeConfigsResponse, version, sent).results)
    assert (config.name, config.value, config.config_source) == ("retention.ms", "5", 1)
    assert [synonym.value for synonym in config.synonyms] == ["5", "604800000"]
    assert bool(config.documentation) is (version >= 3)
