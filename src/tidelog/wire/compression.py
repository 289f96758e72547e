"""The five compression types of record batches, with a hard bound on what decompression may produce.

Libraries are imported at first use, so that a broker, which passes batches on as they are, never loads them.
Snappy is written in the framing of Java's snappy streams and read with or without it; LZ4 and Zstandard are frames.
Bytes that a codec refuses are CORRUPT_MESSAGE, output beyond the bound MESSAGE_TOO_LARGE.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from io import BytesIO
from struct import Struct, error
from typing import Any

from tidelog.errors import ApiError, ErrorCode
from tidelog.ports import Buffer

MAX_OUTPUT_BYTES = 100 * 1024 * 1024

_GZIP = 31  # zlib's window bits for a gzip wrapper with the largest window
_GZIP_FIRST_PIECE = 4096
_GZIP_MOST_MEMBERS = 256
"""No client writes more than one."""
_ZSTD_MAX_WINDOW = 1 << 27  # what a decoder must accept for every ordinary compression level
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_SNAPPY_BLOCK_BYTES = 32 * 1024
_SNAPPY_LEAST_BLOCK = 1024  # of Java's option for the size of blocks
_SNAPPY_MOST_BLOCKS = 256
_LENGTH = Struct(">I")


class Compression(IntEnum):
    """The lowest three bits of a batch's attributes; the names are the values of `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def named(name: str) -> Compression:
    """The type that an option names; ValueError for any other word."""
    try:
        return Compression[name.upper()]
    except KeyError:
        raise ValueError(f"{name!r} is not a compression type; expected one of none, gzip, snappy, lz4, zstd") from None


def compress(compression: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` compressed; `level` is the codec's own number, None its default (snappy has none)."""
    if compression == Compression.NONE:
        return bytes(data)
    return _COMPRESSORS[compression](data, level)


def decompress(compression: int, data: Buffer, limit: int = MAX_OUTPUT_BYTES) -> bytes:
    """The original of `data`, at most `limit` bytes; ApiError as described above."""
    if compression == Compression.NONE:
        return bytes(data)
    decompressor = _DECOMPRESSORS.get(compression)
    if decompressor is None:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression type {compression}")
    output = decompressor(data, limit)
    if len(output) > limit:
        raise _too_large(limit)
    return output


def _corrupt(name: str, reason: object) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"{name} data cannot be decompressed: {reason}")


def _too_large(limit: int) -> ApiError:
    return ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a record batch decompresses to more than {limit} bytes")


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP)
    return stream.compress(data) + stream.flush()


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    """Members may follow one another, as gzip allows."""
    view = memoryview(data)
    output = BytesIO()  # unlike a bytearray, it gives its bytes away without a copy
    position = members = 0
    while position < len(view):
        members += 1
        if members > _GZIP_MOST_MEMBERS:
            raise _corrupt("gzip", f"more than {_GZIP_MOST_MEMBERS} members")
        position = _gzip_member(view, position, output, limit)
    return output.getvalue()


def _gzip_member(view: memoryview, position: int, output: BytesIO, limit: int) -> int:
    """Append the content of the member at `position`; returns where it ends. It is read in pieces that grow, because
    whatever follows a member in its last piece is copied."""
    stream = zlib.decompressobj(_GZIP)
    size = _GZIP_FIRST_PIECE
    while not stream.eof:
        piece = view[position : position + size]
        if not piece:
            raise _corrupt("gzip", "it ends too early")
        try:
            output.write(stream.decompress(piece, limit + 1 - output.tell()))
        except zlib.error as reason:
            raise _corrupt("gzip", reason) from None
        if output.tell() > limit:
            raise _too_large(limit)
        position += len(piece) - len(stream.unused_data)
        size *= 4
    return position


def _compress_snappy(data: Buffer, _level: int | None) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    output = bytearray(_SNAPPY_HEADER)
    for start in range(0, len(view), _SNAPPY_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _SNAPPY_BLOCK_BYTES]))
        output += _LENGTH.pack(len(block))
        output += block
    return bytes(output)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_SNAPPY_MAGIC)]) != _SNAPPY_MAGIC:
        return bytes(_snappy_block(view, limit))
    output = BytesIO()
    position = blocks = 0
    while position < len(view):
        if bytes(view[position : position + len(_SNAPPY_MAGIC)]) == _SNAPPY_MAGIC:
            position += len(_SNAPPY_HEADER)  # streams may be appended to one another, each with its header
            continue
        try:
            (length,) = _LENGTH.unpack_from(view, position)
        except error:
            raise _corrupt("snappy", "a block's length is cut off") from None
        position += _LENGTH.size
        if length > len(view) - position:
            raise _corrupt("snappy", f"a block of {length} bytes is cut off")
        blocks += 1
        if blocks > _SNAPPY_MOST_BLOCKS + limit // _SNAPPY_LEAST_BLOCK:
            raise _corrupt("snappy", f"more than {blocks - 1} blocks")
        output.write(_snappy_block(view[position : position + length], limit - output.tell()))
        position += length
    return output.getvalue()


def _snappy_block(block: memoryview, limit: int) -> Any:
    """The declared length is checked before anything of that size is allocated."""
    from cramjam import DecompressionError, snappy

    try:
        if snappy.decompress_raw_len(block) > limit:
            raise _too_large(limit)
        return snappy.decompress_raw(block)
    except DecompressionError as reason:
        raise _corrupt("snappy", reason) from None


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    from lz4 import frame

    # Kafka refuses frames whose blocks depend on one another.
    return bytes(
        frame.compress(
            data,
            compression_level=0 if level is None else level,
            block_size=frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
    )


def _decompress_lz4(data: Buffer, limit: int) -> bytes:
    from lz4 import frame

    stream = frame.LZ4FrameDecompressor()
    try:
        output = bytes(stream.decompress(bytes(data), max_length=limit + 1))
    except (RuntimeError, ValueError) as reason:
        raise _corrupt("lz4", reason) from None
    if len(output) <= limit and not stream.eof:
        raise _corrupt("lz4", "it ends too early")
    return output


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=3 if level is None else level).compress(data)


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    """A stream that is cut off comes out short, without an error: the records in it then are."""
    from zstandard import ZstdDecompressor, ZstdError

    stream = ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW).stream_reader(data, read_across_frames=True)
    try:
        return stream.read(limit + 1)
    except ZstdError as reason:
        raise _corrupt("zstd", reason) from None


_COMPRESSORS: dict[int, Callable[[Buffer, int | None], bytes]] = {
    Compression.GZIP: _compress_gzip,
    Compression.SNAPPY: _compress_snappy,
    Compression.LZ4: _compress_lz4,
    Compression.ZSTD: _compress_zstd,
}

_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
