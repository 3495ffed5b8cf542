import pytest

from ottla.config import CompressionType, Durability
from ottla.config.names import settings
from ottla.config.values import converted
from ottla.errors import ConfigError


@pytest.mark.parametrize(
    ("path", "given", "expected"),
    [
        ("port", "9093", 9093),
        ("port", 9093, 9093),
        ("log.segment_bytes", "64MiB", 64 << 20),
        ("log.preallocate", "yes", True),
        ("log.preallocate", False, False),
        ("log.min_cleanable_dirty_ratio", "0.25", 0.25),
        ("log.cleanup_policy", "compact, delete", frozenset({"compact", "delete"})),
        ("log.cleanup_policy", ["compact"], frozenset({"compact"})),
        ("log.compression_type", "ZSTD", CompressionType.ZSTD),
        ("journal.durability", "os", Durability.OS),
        ("rack", "", None),
        ("rack", None, None),
        ("rack", 7, "7"),
        ("advertised_port", "null", None),
        ("advertised_port", "19092", 19092),
    ],
)
def test_a_value_becomes_the_type_of_its_setting(path: str, given: object, expected: object) -> None:
    setting = settings()[path]
    value = converted(setting, given, setting.unit, "here")
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("path", "given", "would_do"),
    [
        ("port", "x", "a whole number"),
        ("port", True, "a whole number"),
        ("port", None, "has no value"),
        ("log.segment_bytes", "7d", "a size like 64MiB"),
        ("log.retention_ms", "7 fortnights", "a duration like 500ms"),
        ("log.preallocate", "perhaps", "true or false"),
        ("log.min_cleanable_dirty_ratio", "half", "a number"),
        ("log.compression_type", "rar", "one of producer, uncompressed, gzip, snappy, lz4, zstd"),
        ("log.cleanup_policy", 7, "a list of words"),
        ("data_dir", ["a", "b"], "a text"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_what_would_do(path: str, given: object, would_do: str) -> None:
    setting = settings()[path]
    with pytest.raises(ConfigError, match=f"^here: .*{would_do}"):
        converted(setting, given, setting.unit, "here")
