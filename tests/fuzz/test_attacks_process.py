"""Attacks by bytes on a broker process. Invariant: while the broker works on what one client sent, another client is
answered, and memory stays within the limits of docs/security.md.

Answers are counted, not timed: as long as the event loop was held, there were none until the work was done.
"""

import select

import pytest
import zstandard

from tests.compatibility.differential.batches import EPOCH_2023, batch, with_field
from tests.compatibility.differential.side import Side
from tests.compatibility.differential.wire import Connection
from tests.fuzz import attacks, hostile
from tests.fuzz.attacks import MEGABYTE, attacked, compressed, large_record, small_records, xerial

BUDGET = 32 * MEGABYTE
LARGEST = 16 * MEGABYTE
LEAST_ANSWERS = 3


@pytest.fixture(scope="module")
def target():
    options = {"queued_max_request_bytes": str(BUDGET), "socket_request_max_bytes": str(LARGEST)}
    with attacked(0, **options) as one:
        side = Side("canary", one.port)
        side.topic(hostile.TOPIC, 1)
        side.close()
        yield one


@pytest.fixture(scope="module")
def broker(target):
    return target.child


def grown_by(target, attack):
    target.forget_peak()
    before = target.peak_bytes
    attack(target)
    return target.peak_bytes - before


def test_announced_lengths_take_little_memory(target):
    """250 lengths of 16 MB took 2 MB each."""
    assert grown_by(target, lambda target: attacks.prefixes(target, LARGEST)) < 40 * MEGABYTE


def test_unfinished_requests_share_a_budget(target):
    """200 halves of 2 MB would be 200 MB."""
    assert grown_by(target, attacks.hoard) < BUDGET + LARGEST + 40 * MEGABYTE


def answers_meanwhile(target, api, version, **values):
    """The answer to a request, and how many answers another client got while the broker worked on it."""
    with_work, other = Connection(target.port), Connection(target.port)
    tweet = [{"name": attacks.CANARY, "partition_data": [{"index": 0, "records": batch(b"tweet")}]}]
    with_work.send(api, version, **values)
    count = 0
    while not select.select([with_work.socket], [], [], 0)[0]:
        written = other.ask("Produce", 12, acks=-1, timeout_ms=30_000, topic_data=tweet)
        assert written.responses[0].partition_responses[0].error_code == 0
        count += 1
    answer = with_work.receive()
    with_work.close()
    other.close()
    return answer, count


INFLATING = {
    "zstd": (4, zstandard.ZstdCompressor().compress(large_record(15 * MEGABYTE)), 1),
    "snappy": (2, xerial(large_record(15 * MEGABYTE)), 1),
    "many records": (4, zstandard.ZstdCompressor().compress(small_records(300_000)), 300_000),
}


@pytest.mark.parametrize("topic", ["compacted", "gzipped"])
@pytest.mark.parametrize("content", INFLATING)
def test_others_are_answered_while_a_batch_is_inspected(target, topic, content):
    kind, payload, count = INFLATING[content]
    data = [{"name": topic, "partition_data": [{"index": 0, "records": compressed(kind, payload, count)}]}]
    answer, answers = answers_meanwhile(target, "Produce", 12, acks=-1, timeout_ms=30_000, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code == 0
    if topic == "gzipped" or count > 1:  # to inflate alone takes a few milliseconds
        assert answers >= LEAST_ANSWERS


def test_others_are_answered_while_a_time_is_looked_up(target):
    payload = zstandard.ZstdCompressor().compress(small_records(300_000))
    lying = with_field(compressed(4, payload, 300_000), "max_timestamp", EPOCH_2023 + 5)
    data = [{"name": "bombs", "partition_data": [{"index": 0, "records": lying}]}]
    connection = Connection(target.port)
    made = connection.ask("Produce", 12, acks=-1, timeout_ms=30_000, topic_data=data)
    assert made.responses[0].partition_responses[0].error_code == 0
    connection.close()
    wanted = [{"name": "bombs", "partitions": [{"partition_index": 0, "timestamp": EPOCH_2023 + 3}]}]
    answer, answers = answers_meanwhile(target, "ListOffsets", 7, replica_id=-1, topics=wanted)
    assert answer.topics[0].partitions[0].offset == 299_999, "all records were read"
    assert answers >= LEAST_ANSWERS
