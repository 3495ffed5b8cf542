import gzip
import tracemalloc
import zlib
from contextlib import suppress

import cramjam
import lz4.frame
import pytest
import zstandard
from aiokafka import codec as aiokafka_codec
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import codec as kafka_codec

from ottla.errors import CorruptBatchError
from ottla.protocol.compression import XERIAL_BLOCK_BYTES, XERIAL_HEADER, Compression, compress, decompress

BOUND = 1 << 20
COMPRESSED = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
BOMB = bytes(1 << 25)

payloads = st.one_of(
    st.binary(min_size=1, max_size=200),
    st.builds(lambda unit, count: unit * count, st.binary(min_size=1, max_size=64), st.integers(1, 4_000)),
)


@pytest.mark.parametrize("codec", Compression)
@given(payload=payloads)
@settings(max_examples=30, deadline=None)
def test_what_is_compressed_comes_back(codec: Compression, payload: bytes) -> None:
    assert decompress(codec, memoryview(compress(codec, payload)), BOUND) == payload


@given(payload=payloads)
@settings(max_examples=30, deadline=None)
def test_other_clients_read_what_we_compress(payload: bytes) -> None:
    assert kafka_codec.gzip_decode(compress(Compression.GZIP, payload)) == payload
    assert aiokafka_codec.snappy_decode(compress(Compression.SNAPPY, payload)) == payload
    assert kafka_codec.lz4_decode(compress(Compression.LZ4, payload)) == payload
    assert kafka_codec.zstd_decode(compress(Compression.ZSTD, payload)) == payload


@given(payload=payloads)
@settings(max_examples=30, deadline=None)
def test_we_read_what_other_clients_compress(payload: bytes) -> None:
    def read(codec: Compression, compressed: bytes) -> bytes:
        return decompress(codec, compressed, BOUND)

    assert read(Compression.GZIP, kafka_codec.gzip_encode(payload)) == payload
    assert read(Compression.SNAPPY, bytes(aiokafka_codec.snappy_encode(payload))) == payload
    assert read(Compression.SNAPPY, bytes(aiokafka_codec.snappy_encode(payload, xerial_compatible=False))) == payload
    assert read(Compression.LZ4, kafka_codec.lz4_encode(payload)) == payload
    assert read(Compression.ZSTD, kafka_codec.zstd_encode(payload)) == payload


def test_zstd_without_a_content_size_is_read() -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()

    assert decompress(Compression.ZSTD, stream.compress(b"abc" * 1_000) + stream.flush(), BOUND) == b"abc" * 1_000


def test_gzip_of_several_members_is_read_as_java_does() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"one") + gzip.compress(b"two"), BOUND) == b"onetwo"


def test_snappy_is_framed_in_blocks_as_java_does() -> None:
    compressed = compress(Compression.SNAPPY, bytes(XERIAL_BLOCK_BYTES + 1))

    assert compressed.startswith(XERIAL_HEADER)
    first = int.from_bytes(compressed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(compressed[20 : 20 + first])) == bytes(XERIAL_BLOCK_BYTES)


def test_lz4_blocks_are_independent_since_java_reads_no_others() -> None:
    assert not lz4.frame.get_frame_info(compress(Compression.LZ4, bytes(1 << 18)))["block_linked"]


@pytest.mark.parametrize("codec", Compression)
def test_exactly_the_bound_is_allowed_and_one_byte_more_is_not(codec: Compression) -> None:
    compressed = compress(codec, bytes(1_000))

    assert decompress(codec, compressed, 1_000) == bytes(1_000)
    with pytest.raises(CorruptBatchError, match="larger than it may be"):
        decompress(codec, compressed, 999)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_costs_little_more_than_the_bound(codec: Compression) -> None:
    bomb = compress(codec, BOMB)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError):
            decompress(codec, bomb, BOUND)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 6 * BOUND


@pytest.mark.parametrize("codec", COMPRESSED)
def test_data_that_ends_too_early_is_refused(codec: Compression) -> None:
    compressed = compress(codec, b"some text that is worth compressing" * 100)

    for length in {1, 5, len(compressed) // 2, len(compressed) - 1}:
        with pytest.raises(CorruptBatchError):
            decompress(codec, compressed[:length], BOUND)


@pytest.mark.parametrize("codec", COMPRESSED)
@given(garbage=st.binary(max_size=200), at=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=100, deadline=None)
def test_garbage_and_flipped_bits_raise_nothing_else(codec: Compression, garbage: bytes, at: int, bit: int) -> None:
    flipped = bytearray(compress(codec, b"payload " * 30))
    flipped[at % len(flipped)] ^= 1 << bit
    for damaged in (garbage, bytes(flipped), XERIAL_HEADER + garbage):
        with suppress(CorruptBatchError):
            assert len(decompress(codec, damaged, BOUND)) <= BOUND


def test_gzip_is_what_zlib_calls_gzip() -> None:
    assert zlib.decompress(compress(Compression.GZIP, b"text"), wbits=31) == b"text"
