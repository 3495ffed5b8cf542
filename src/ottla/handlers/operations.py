"""What a client may do to a resource, as bits in answers. There are no ACLs, so it may do all that Kafka defines."""

from ottla.protocol.primitives import INT32_MIN

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = (
    1 << code for code in range(3, 13)
)

TOPIC_OPERATIONS = READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS
CLUSTER_OPERATIONS = CREATE | ALTER | DESCRIBE | CLUSTER_ACTION | DESCRIBE_CONFIGS | ALTER_CONFIGS | IDEMPOTENT_WRITE


def if_asked(operations: int, asked: bool) -> int:
    """The smallest number stands for: you did not ask."""
    return operations if asked else INT32_MIN
