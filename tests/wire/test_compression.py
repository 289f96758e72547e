"""Every codec gives back what it was given, reads what other writers produce, and never exceeds the bound."""

import gzip
import random

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.errors import ApiError, ErrorCode
from tidelog.wire.compression import Compression, compress, decompress, named

PACKED = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
BOMB = bytes(5_000_000)
OUTCOMES = ("at most 1000 bytes", ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


def outcome(compression, data):
    try:
        output = decompress(compression, data, limit=1000)
    except ApiError as refused:
        return refused.code
    return "at most 1000 bytes" if len(output) <= 1000 else output


@pytest.mark.parametrize("compression", list(Compression))
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=2000) | st.integers(0, 300_000).map(bytes))
def test_decompression_gives_back_the_original(compression, data):
    assert decompress(compression, memoryview(compress(compression, memoryview(data)))) == data


@pytest.mark.parametrize("compression", PACKED)
def test_output_is_bounded(compression):
    packed = compress(compression, BOMB)
    with pytest.raises(ApiError) as refused:
        decompress(compression, packed, limit=len(BOMB) - 1)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert decompress(compression, packed, limit=len(BOMB)) == BOMB


@pytest.mark.parametrize("compression", PACKED)
@given(data=st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else(compression, data):
    assert outcome(compression, data) in OUTCOMES


@pytest.mark.parametrize("compression", PACKED)
@given(data=st.data())
def test_a_damaged_stream_is_refused_or_reads_as_something_bounded(compression, data):
    packed = bytearray(compress(compression, b"some text, some text, some other text" * 20))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert outcome(compression, packed) in OUTCOMES


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_a_stream_that_is_cut_off_is_corrupt(compression):
    packed = compress(compression, bytes(range(256)) * 400)
    with pytest.raises(ApiError) as refused:
        decompress(compression, packed[:-5])
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_snappy_block_that_declares_too_much_is_refused_before_it_is_allocated():
    header = compress(Compression.SNAPPY, b"")
    declares_4_gib = b"\xff\xff\xff\xff\x0f" + b"abc"
    with pytest.raises(ApiError) as refused:
        decompress(Compression.SNAPPY, header + len(declares_4_gib).to_bytes(4) + declares_4_gib)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_an_unknown_type_is_named():
    with pytest.raises(ApiError, match="5") as refused:
        decompress(5, b"")
    assert refused.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_what_others_write_is_read():
    text = b"text of another writer " * 9000
    assert decompress(Compression.GZIP, gzip.compress(text[:100]) + gzip.compress(text[100:])) == text
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(text))) == text
    framed = compress(Compression.SNAPPY, text)
    assert decompress(Compression.SNAPPY, framed + framed) == text + text
    assert decompress(Compression.LZ4, lz4.frame.compress(text, store_size=True, content_checksum=True)) == text
    assert decompress(Compression.ZSTD, zstandard.ZstdCompressor(level=19).compress(text)) == text


def test_lz4_frames_have_independent_blocks_as_kafka_demands():
    descriptor = compress(Compression.LZ4, BOMB)[4]
    assert descriptor & 0x20


def test_names_are_those_of_the_option():
    assert [named(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(Compression)
    with pytest.raises(ValueError, match="brotli"):
        named("brotli")


def test_pieces_without_contents_are_not_counted_for_ever():
    """A megabyte of empty gzip members took most of a second, because each copied the rest."""
    snappy = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + b"\0\0\0\x01\0" * 20_000
    for kind, data in ((1, gzip.compress(b"") * 20_000), (2, snappy)):
        with pytest.raises(ApiError, match="more than") as error:
            decompress(kind, data, 100_000)
        assert error.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_few_gzip_members_are_read_one_after_the_other():
    parts = [b"a" * 10, b"", random.Random(0).randbytes(100_000), b"c" * 2_000_000]
    assert decompress(1, b"".join(map(gzip.compress, parts))) == b"".join(parts)
