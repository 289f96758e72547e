"""Hostile record batches in well-formed Produce requests. Invariant: each is answered with a code or appended; what is
appended below a bad batch can be read, and a broker that recompresses or looks for keys never inflates without bound.
"""

import gzip
import random
import struct

import pytest
import zstandard

from tests.compatibility.differential.batches import batch, seal, with_field
from tests.compatibility.differential.side import Side
from tests.fuzz.hostile import resident_bytes
from tidelog.wire.records import HEADER_BYTES

MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def side(broker):
    one = Side("hostile", broker.port)
    one.topic("plain")
    one.topic("compacted", 1, cleanup_policy="compact")
    one.topic("zipped", 1, compression_type="lz4")
    yield one
    one.close()


def produce(side, topic, records):
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    return side.quiet("Produce", 12, acks=-1, timeout_ms=5000, topic_data=data).responses[0].partition_responses[0]


@pytest.mark.parametrize("topic", ["plain", "compacted", "zipped"])
@pytest.mark.parametrize("seed", range(8))
def test_batches_with_bytes_changed(side, topic, seed):
    """Half of them with a checksum that holds."""
    chance = random.Random(seed)
    good = batch((b"k", b"one"), (b"k2", b"two" * 50), (b"k3", None))
    for number in range(40):
        changed = bytearray(good[: chance.randrange(len(good))] if number % 8 == 7 else good)
        for _ in range(chance.randrange(1, 4)):
            if changed:
                changed[chance.randrange(len(changed))] = chance.randrange(256)
        data = seal(changed) if number % 2 and len(changed) > HEADER_BYTES else bytes(changed)
        answer = produce(side, topic, data)
        assert (answer.base_offset >= 0) == (answer.error_code == 0)


def bomb(kind, compressed):
    """A small batch of one record whose content unpacks to hundreds of megabytes."""
    data = bytearray(batch((b"k", b"v"))[:HEADER_BYTES] + compressed)
    struct.pack_into(">i", data, 8, len(data) - 12)
    return with_field(seal(data), "attributes", kind)


@pytest.mark.parametrize("topic", ["compacted", "zipped"])
def test_decompression_is_bounded(side, broker, topic):
    zeros = bytes(MEGABYTE)
    before = resident_bytes(broker)
    packer = zstandard.ZstdCompressor(level=3)
    for kind, compressed in ((1, gzip.compress(zeros * 150, 6)), (4, packer.compress(zeros * 300))):
        assert len(compressed) < MEGABYTE
        answer = produce(side, topic, bomb(kind, compressed))
        assert answer.error_code != 0
        assert answer.base_offset == -1
    assert resident_bytes(broker) - before < 150 * MEGABYTE
