"""Produce and InitProducerId: what is appended, and every way to be refused."""

import struct
from typing import Any

from tests.compatibility.differential.batches import EPOCH_2023, WELL, batch, fields_of, old_format, with_field
from tests.compatibility.differential.side import Side
from tests.waiting import wait_for
from tidelog.wire.compression import Compression

UNKNOWN_ID = b"unknown topic id"
NEWEST, BY_NAME, OLDEST = 13, 12, 3


def run(side: Side) -> None:
    kept = {"retention_ms": "-1"}
    topic = Topic(side, "produced", side.topic("produced", 2, **kept))
    _accepted(topic)
    _places(side, topic)
    _malformed(topic)
    _apart(side)
    _sequences(topic)
    _topics_of_other_kinds(side)
    _acknowledgements(side, topic)
    _producer_ids(side)


class Topic:
    """Sends batches to one topic."""

    def __init__(self, side: Side, name: str, topic_id: bytes) -> None:
        self.side = side
        self.name = name
        self.id = topic_id

    def data(self, records: Any, index: int = 0) -> dict[str, Any]:
        return {"name": self.name, "topic_id": self.id, "partition_data": [{"index": index, "records": records}]}

    def send(self, label: str, records: Any, *versions: int, index: int = 0, acks: int = -1, **more: Any) -> Any:
        """In the oldest and newest version, or in those given."""
        data = [self.data(records, index)]
        answer = None
        for version in versions or (OLDEST, NEWEST):
            answer = self.side.ask(label, "Produce", version, acks=acks, timeout_ms=5_000, topic_data=data, **more)
        return answer


def _accepted(topic: Topic) -> None:
    for version in range(OLDEST, NEWEST + 1):
        topic.send("a record", batch(b"one"), version)
    topic.send("acks=1", batch(b"two"), acks=1)
    for compression in Compression:
        topic.send(f"compressed {compression.name}", batch(b"x" * 300, b"y" * 300, compression=compression), 7, 13)
    topic.send("zstd before it was known", batch(b"z", compression=Compression.ZSTD), 3, 6)
    topic.send("headers, keys and tombstones", batch((b"k", None), (None, b""), (b"", b"v"), headers=[("h", None)]))
    topic.send("a base offset that is not 0", with_field(batch(b"far"), "base_offset", 77))
    topic.send("a leader epoch that is not the leader's", with_field(batch(b"epoch"), "leader_epoch", 9))
    topic.send("no timestamps", batch(b"none", timestamp=-1))


def _places(side: Side, topic: Topic) -> None:
    one = batch(b"nowhere")
    for index in (2, -1, 2**31 - 1):
        topic.send(f"partition {index}", one, index=index)
    for name in ("nowhere", "", "bad name!", "x" * 250, ".."):
        Topic(side, name, UNKNOWN_ID).send(f"topic {name[:10]!r}", one)
    Topic(side, "", bytes(16)).send("the id of nothing", one, NEWEST)
    side.both("no topics", "Produce", acks=1, timeout_ms=1000, topic_data=[])
    nothing = {"name": "produced", "topic_id": topic.id, "partition_data": []}
    side.both("no partitions", "Produce", acks=1, timeout_ms=1000, topic_data=[nothing])
    both = {**topic.data(one), "partition_data": [{"index": index, "records": one} for index in (0, 1, 7)]}
    side.both(
        "some partitions there",
        "Produce",
        acks=1,
        timeout_ms=1000,
        topic_data=[both, Topic(side, "nowhere", UNKNOWN_ID).data(one)],
    )
    side.both("a negative timeout", "Produce", acks=-1, timeout_ms=-1, topic_data=[topic.data(one)])


def _malformed(topic: Topic) -> None:
    good = batch(*WELL)
    damaged = bytearray(good)
    damaged[-1] ^= 0xFF
    topic.send("empty records", b"")
    topic.send("a bad checksum", bytes(damaged))
    topic.send("two batches", good + good)
    topic.send("magic 0", old_format(0))
    topic.send("magic 1", old_format(1))
    topic.send("magic 3", with_field(good, "magic", 3))
    topic.send("magic -1", with_field(good, "magic", -1))
    for cut in (5, 12, 16, 17, 60, 61, len(good) - 1):
        topic.send(f"the first {cut} bytes of a batch", good[:cut], NEWEST)
    topic.send("garbage", bytes(range(1, 200)), NEWEST)
    for length in (-1, 0, 13, 48, 2**31 - 1):
        topic.send(f"a batch of length {length}", with_field(good, "length", length, sealed=False), NEWEST)
    for name, value in (
        ("attributes", 5), ("attributes", 7), ("attributes", 0x20), ("attributes", 0x10), ("attributes", 0x40),
        ("attributes", 0x80), ("last_offset_delta", 0), ("last_offset_delta", 7), ("last_offset_delta", -1),
        ("count", 0), ("count", -1), ("count", 2), ("count", 2**31 - 1), ("base_offset", -5),
        ("max_timestamp", 5), ("base_timestamp", -9),
    ):  # fmt: skip
        topic.send(f"a header with {name} {value}", with_field(good, name, value), NEWEST)
    topic.send("no records in the batch", batch(), NEWEST)
    topic.send("a batch larger than allowed", batch(b"x" * 1_100_000))
    topic.send("a timestamp far ahead", batch(b"x", timestamp=EPOCH_2023 * 3))
    topic.send("a transactional id and a plain batch", batch(b"x"), transactional_id="writer")


def _apart(side: Side) -> None:
    """What only one of the two may accept: each case has a topic of its own, so that offsets stay the same elsewhere."""
    good = batch(*WELL)
    for number, (label, records) in enumerate(
        {
            "a batch that is LogAppendTime already": with_field(good, "attributes", 8),
            "a byte behind the batch": good + b"\x00",
            "compressed bytes that are not": with_field(good, "attributes", 1),
            "a record with a wrong offset": fields_of(WELL, deltas=(0, 5, 2)),
        }.items()
    ):
        name = f"apart-{number}"
        topic_id = side.topic(name, retention_ms="-1")
        Topic(side, name, topic_id).send(label, records, NEWEST)
        wanted = [{"topic_id": topic_id, "partitions": [{"partition": 0, "partition_max_bytes": 9999}]}]
        side.ask(f"what is stored of {label}", "Fetch", 13, max_wait_ms=0, min_bytes=0, max_bytes=9999, topics=wanted)
    data = {"topic_id": topic_id, "partition_data": [{"index": 0, "records": None}]}
    side.mute("null records", "Produce", NEWEST, acks=-1, timeout_ms=100, topic_data=[data])


def _sequences(topic: Topic) -> None:
    def send(label: str, sequence: int, *values: bytes, producer: int = 4_000, epoch: int = 2) -> None:
        sent = batch(*(values or (b"s",)), producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        topic.send(label, sent, NEWEST, index=1)

    send("a first sequence that is not 0", 5, producer=4_001)
    send("a first sequence", 0, b"a", b"b")
    send("a duplicate", 0, b"a", b"b")
    send("the same first sequence, another last", 0, b"a")
    send("a gap", 5)
    send("after the rejected gap, the next", 2)
    for sequence in range(3, 9):
        send("the next ones", sequence)
    send("a duplicate of the last five", 5)
    send("a duplicate older than the last five", 2)
    send("an older epoch", 9, epoch=1)
    send("a newer epoch that does not begin at 0", 9, epoch=3)
    send("a newer epoch", 0, epoch=3)
    send("the epoch before it", 9, epoch=2)
    send("a negative sequence", -2, producer=4_002)
    send("a producer without sequence", -1, producer=4_003)
    send("a producer without epoch", 0, producer=4_004, epoch=-1)
    send("the largest sequence first", 2**31 - 1, producer=4_005)
    send("a sequence without producer", 3, producer=-1, epoch=-1)
    send("a negative producer", 0, producer=-7)


def _topics_of_other_kinds(side: Side) -> None:
    compacted = Topic(side, "compacted", side.topic("compacted", 1, cleanup_policy="compact"))
    compacted.send("compacted: a key", batch((b"k", b"v")))
    compacted.send("compacted: no key", batch((b"k", b"v"), (None, b"v")))
    compacted.send("compacted: no key, compressed", batch((None, b"v"), compression=Compression.LZ4))
    compacted.send("compacted: a record with a wrong offset", fields_of(WELL, deltas=(0, 5, 2)), NEWEST)
    small = Topic(side, "small", side.topic("small", 1, max_message_bytes="200"))
    small.send("small: fits", batch(b"x" * 100))
    small.send("small: too large", batch(b"x" * 200))
    small.send("small: exactly", batch(b"x" * (200 - len(batch(b"")) - 1)))
    small.send("small: one byte more", batch(b"x" * (200 - len(batch(b"")))))
    stamped = Topic(side, "stamped", side.topic("stamped", 1, message_timestamp_type="LogAppendTime"))
    stamped.send("stamped: any time", batch(b"x", timestamp=EPOCH_2023 * 3))
    bounded = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"}
    timely = Topic(side, "timely", side.topic("timely", 1, **bounded))
    timely.send("timely: too old", batch(b"x", timestamp=EPOCH_2023))
    timely.send("timely: too new", batch(b"x", timestamp=EPOCH_2023 * 3))
    zipped = Topic(side, "zipped", side.topic("zipped", 1, compression_type="gzip"))
    zipped.send("recompressed by the broker", batch(b"x" * 100))
    shy = Topic(side, "shy", side.topic("shy", 1, min_insync_replicas="2"))
    shy.send("min.insync.replicas over the number of replicas", batch(b"x"))


def _acknowledgements(side: Side, topic: Topic) -> None:
    for acks in (2, -2, 32767):
        topic.send(f"acks={acks}", batch(b"x"), acks=acks)
    good = topic.data(batch(b"unanswered"))
    side.silent("acks=0", "Produce", NEWEST, acks=0, timeout_ms=1000, topic_data=[good])
    side.close()
    for label, wrong in (
        ("a bad batch", topic.data(b"\x00" * 70)),
        ("an unknown partition", topic.data(batch(b"x"), 9)),
        ("an unknown topic", Topic(side, "nowhere", UNKNOWN_ID).data(batch(b"x"))),
    ):
        side.ask(f"acks=0 and {label}", "Produce", NEWEST, acks=0, timeout_ms=1000, topic_data=[wrong])
        side.close()
    side.both("what has been appended", "Fetch", max_wait_ms=0, min_bytes=0, max_bytes=2**30, topics=[
        {"topic": "produced", "topic_id": topic.id, "partitions": [
            {"partition": index, "fetch_offset": 0, "partition_max_bytes": 2**30} for index in (0, 1)]}])  # fmt: skip


def _producer_ids(side: Side) -> None:
    asked = lambda: side.quiet("InitProducerId", 5, transactional_id=None, transaction_timeout_ms=1)  # noqa: E731
    wait_for(lambda: not asked().error_code, f"{side}: the first block of ids")
    for version in range(6):
        side.ask("no transactional id", "InitProducerId", version, transactional_id=None, transaction_timeout_ms=60_000)
    none: dict[str, Any] = {"transactional_id": None}
    side.both("a timeout of 0", "InitProducerId", **none, transaction_timeout_ms=0)
    side.both("a negative timeout", "InitProducerId", **none, transaction_timeout_ms=-1)
    side.both("a huge timeout", "InitProducerId", **none, transaction_timeout_ms=2**31 - 1)
    side.both("an empty transactional id", "InitProducerId", transactional_id="", transaction_timeout_ms=60_000)
    side.ask("a producer id alone", "InitProducerId", 5, **none, transaction_timeout_ms=1, producer_id=7)
    side.ask(
        "a producer id and epoch",
        "InitProducerId",
        5,
        **none,
        transaction_timeout_ms=1,
        producer_id=7,
        producer_epoch=1,
    )
    side.ask("an epoch alone", "InitProducerId", 5, **none, transaction_timeout_ms=1, producer_epoch=1)
    side.raw("a null in an array of topics", _produce_v3(struct.pack(">i", -1)))


def _produce_v3(topics: bytes) -> bytes:
    body = struct.pack(">hhih", 0, 3, 1, -1) + struct.pack(">hhi", -1, 1, 1000) + topics
    return struct.pack(">i", len(body)) + body
