from ottla.handlers.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, if_asked

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12


def bits(number: int) -> set[int]:
    return {bit for bit in range(32) if number >> bit & 1}


def test_the_operations_of_a_resource_are_those_that_kafka_defines() -> None:
    assert bits(TOPIC_OPERATIONS) == {READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}
    assert bits(CLUSTER_OPERATIONS) == {
        CREATE,
        ALTER,
        DESCRIBE,
        CLUSTER_ACTION,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        IDEMPOTENT_WRITE,
    }


def test_who_did_not_ask_is_told_the_smallest_number() -> None:
    assert if_asked(TOPIC_OPERATIONS, True) == TOPIC_OPERATIONS
    assert if_asked(TOPIC_OPERATIONS, False) == -(2**31)
