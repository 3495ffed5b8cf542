import pytest

from ottla.config import CompressionType
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.config_defs import ConfigType, split_list, to_text
from ottla.metadata.topic_configs import topic_configs


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 1000 ", 1000),
        ("retention.ms", "-1", -1),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("compression.type", "zstd", CompressionType.ZSTD),
        ("cleanup.policy", "compact, delete", frozenset({"compact", "delete"})),
    ],
)
def test_a_text_means_a_value(name: str, text: str, value: object) -> None:
    assert topic_configs()[name].topic.parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("retention.ms", "x", "Not a number of type LONG"),
        ("retention.ms", "1.5", "Not a number of type LONG"),
        ("retention.ms", "1_000", "Not a number of type LONG"),
        ("retention.ms", str(2**63), "Not a number of type LONG"),
        ("retention.ms", "9" * 5_000, "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("segment.bytes", "4294967296", "Value must be no more than 2147483647"),
        ("preallocate", "1", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "2", "Value must be no more than 1.0"),
        ("min.cleanable.dirty.ratio", "nan", "Value must be"),
        ("compression.type", "ZIP", "String must be one of: producer, uncompressed, gzip, snappy, lz4, zstd"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
    ],
)
def test_a_text_that_can_not_be_is_refused_as_kafka_refuses_it(name: str, text: str, reason: str) -> None:
    with pytest.raises(BrokerError) as caught:
        topic_configs()[name].topic.parse(text)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert caught.value.message.startswith(f"Invalid value {text} for configuration {name}: {reason}")


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("segment.bytes", ConfigType.INT),
        ("retention.ms", ConfigType.LONG),
        ("retention.bytes", ConfigType.LONG),
        ("min.insync.replicas", ConfigType.INT),
        ("cleanup.policy", ConfigType.LIST),
        ("preallocate", ConfigType.BOOLEAN),
        ("min.cleanable.dirty.ratio", ConfigType.DOUBLE),
        ("message.timestamp.type", ConfigType.STRING),
    ],
)
def test_types_are_those_that_kafka_tells_of(name: str, type_: ConfigType) -> None:
    assert topic_configs()[name].topic.type is type_


def test_values_are_written_as_kafka_writes_them() -> None:
    assert [to_text(value) for value in (None, True, False, 7, 0.5, frozenset({"b", "a"}), CompressionType.GZIP)] == [
        None,
        "true",
        "false",
        "7",
        "0.5",
        "a,b",
        "gzip",
    ]


def test_every_default_is_a_valid_value() -> None:
    for config in topic_configs().values():
        text = to_text(config.topic.default)
        assert text is not None
        assert config.topic.parse(text) == config.topic.default


def test_lists_are_split_at_commas() -> None:
    assert split_list(" a, b,,c ") == ["a", "b", "c"]
    assert split_list("") == []
