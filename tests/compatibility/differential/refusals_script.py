"""What is wrong with a transaction, a producer or a record: one table of requests and the codes they are refused with.

Nothing that is refused may leave a trace: after each request the ends of all partitions, those of internal topics among
them, are what they were before. The table holds for Tidelog (test_refusals.py) and, by the differential test, for Kafka.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.compatibility.differential.batches import batch
from tests.compatibility.differential.groups_script import await_coordinator
from tests.compatibility.differential.side import Side
from tests.compatibility.differential.transactions_script import adding, await_id, batched, begun, ending, init
from tests.waiting import wait_for
from tidelog.errors import ErrorCode
from tidelog.wire.message import fields
from tidelog.wire.records import CONTROL, TRANSACTIONAL

HOUR_MS = 3_600_000
STRANGER = 1 << 40
"""A producer id that nobody was given."""
COORDINATOR = 7
"""The epoch of the coordinator whose marker an operator has written."""


@dataclass
class Ground:
    """Topics, and producers that have written: `plain` to partition 0 of r-log (epoch 5, sequences 0 and 1), `open` to
    partition 1 in a transaction that it has not ended; `ended` has ended one; that of `marked` an operator has ended."""

    side: Side
    plain: int = 0
    open: tuple[int, int] = (0, 0)
    ended: tuple[int, int] = (0, 0)
    marked: tuple[int, int] = (0, 0)
    now: int = field(default_factory=lambda: int(time.time() * 1000))


Values = dict[str, Any]


class Request(NamedTuple):
    api: str
    version: int
    values: Callable[[Ground], Values]


class Case(NamedTuple):
    """`codes` are the names of all codes in the answer, in their order, without NONE."""

    label: str
    request: Request
    codes: str


def run(side: Side) -> None:
    ground = _prepared(side)
    for case in CASES:
        before = _ends(side)
        api, version, values = case.request
        side.ask(case.label, api, version, **values(ground))
        side.note(f"{case.label}: appended", _grown(before, _ends(side)))


def refusals(side: Side) -> Iterator[tuple[Case, str, dict[str, int]]]:
    """(case, the codes it was answered with, partitions that have grown)."""
    ground = _prepared(side)
    for case in CASES:
        before = _ends(side)
        api, version, values = case.request
        answer = side.quiet(api, version, **values(ground))
        yield case, " ".join(_codes(answer)), _grown(before, _ends(side))


def _codes(answer: Any) -> Iterator[str]:
    for each in fields(answer):
        value = getattr(answer, each.name)
        if each.name.endswith("error_code"):
            if value:
                yield ErrorCode(value).name
        elif isinstance(value, list) and value and hasattr(value[0], "__fields__"):
            for one in value:
                yield from _codes(one)


# The ground.


def _prepared(side: Side) -> Ground:
    side.topic("r-log", 2)
    side.topic("r-compacted", 1, cleanup_policy="compact")
    side.topic("r-timely", 1, message_timestamp_before_max_ms=str(HOUR_MS), message_timestamp_after_max_ms=str(HOUR_MS))
    side.topic("r-gone", 1)
    side.quiet("DeleteTopics", 5, topic_names=["r-gone"], timeout_ms=20_000)
    await_coordinator(side, "r-group")
    for name in ("r-open", "r-ended", "r-marked", "r-bad"):
        await_id(side, name)
    ground = Ground(side)
    ground.plain = side.quiet("InitProducerId", 4, **init(None)).producer_id
    _write(side, _records((ground.plain, 5), 0), _records((ground.plain, 5), 1))
    ground.open = begun(side, "r-open")
    _write(side, *(_records(ground.open, number, TRANSACTIONAL) for number in range(2)), name="r-open", partition=1)
    ground.ended = begun(side, "r-ended")
    _write(side, _records(ground.ended, 0, TRANSACTIONAL), name="r-ended")
    side.quiet("EndTxn", 5, **ending("r-ended", ground.ended, commit=True))
    wait_for(lambda: "Complete" in _state(side, "r-ended"), f"{side}: the markers")
    ground.marked = begun(side, "r-marked")
    _write(side, _records(ground.marked, 0, TRANSACTIONAL), name="r-marked")
    side.quiet("WriteTxnMarkers", 1, markers=[_marker(ground.marked, COORDINATOR, "r-log", 0)])
    return ground


def _state(side: Side, name: str) -> str:
    found = side.quiet("DescribeTransactions", 0, transactional_ids=[name]).transaction_states[0]
    return str(found.transaction_state)


def _write(side: Side, *batches: bytes, name: str | None = None, partition: int = 0) -> None:
    for records in batches:
        topics = [{"name": "r-log", "partition_data": [{"index": partition, "records": records}]}]
        found = side.quiet("Produce", 12, transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=topics)
        assert found.responses[0].partition_responses[0].error_code == 0, (side, found)


def _ends(side: Side) -> dict[str, int]:
    """topic-partition → its end, of all that there are."""
    known = side.quiet("Metadata", 12, topics=None, allow_auto_topic_creation=False).topics
    wanted = [
        {
            "name": topic.name,
            "partitions": [{"partition_index": p.partition_index, "timestamp": -1} for p in partitions],
        }
        for topic in known
        if topic.name.startswith(("r-", "__")) and (partitions := topic.partitions)
    ]
    found = side.quiet("ListOffsets", 7, replica_id=-1, topics=wanted)
    return {f"{topic.name}-{part.partition_index}": part.offset for topic in found.topics for part in topic.partitions}


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: end - before.get(name, 0) for name, end in after.items() if end != before.get(name, 0)}


# The requests. `later` is how many epochs later than the producer's own.


def _records(producer: tuple[int, int], sequence: int, attributes: int = 0, count: int = 1) -> bytes:
    who = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
    return batch(*[b"v"] * count, attributes=attributes, **who)


def _produce(
    records: Callable[[Ground], bytes], topic: str = "r-log", partition: int = 0, name: str | None = None, api: int = 12
) -> Request:
    def values(ground: Ground) -> Values:
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records(ground)}]}]
        return {"transactional_id": name, "acks": -1, "timeout_ms": 10_000, "topic_data": data}

    return Request("Produce", api, values)


def plain(epoch: int, sequence: int, attributes: int = 0, count: int = 1) -> Request:
    """Of the producer without transactions, to its partition."""
    return _produce(lambda ground: _records((ground.plain, epoch), sequence, attributes, count))


def inside(
    sequence: int, *, later: int = 0, attributes: int = TRANSACTIONAL, name: str | None = "r-open", api: int = 12
) -> Request:
    """Of the producer with the open transaction, to its partition."""
    return _produce(lambda ground: _records(_of(ground, later), sequence, attributes), "r-log", 1, name, api)


def elsewhere(name: str, *, api: int = 12, stranger: bool = False) -> Request:
    """The same to a partition that is not in the transaction."""
    return _produce(lambda ground: _records(_of(ground, stranger=stranger), 0, TRANSACTIONAL), "r-timely", 0, name, api)


def record(topic: str, *pairs: Any, after_ms: int = 0) -> Request:
    return _produce(lambda ground: batch(*pairs, timestamp=ground.now + after_ms), topic)


def begin(name: str, *, time_ms: int = 60_000, version: int = 5, producer: tuple[int, int] = (-1, -1)) -> Request:
    return Request("InitProducerId", version, lambda _: init(name, *producer, time_ms))


def go_on_after_the_end() -> Request:
    return Request("InitProducerId", 5, lambda ground: init("r-ended", *_raised(ground.ended, -1)))


def end(later: int = 0, *, name: str = "r-open", version: int = 5, stranger: bool = False) -> Request:
    return Request("EndTxn", version, lambda ground: ending(name, _of(ground, later, stranger=stranger), commit=True))


def end_again(later: int, *, commit: bool) -> Request:
    return Request("EndTxn", 5, lambda ground: ending("r-ended", _raised(ground.ended, later), commit=commit))


def add(topics: dict[str, list[int]], later: int = 0, *, stranger: bool = False) -> Request:
    return Request(
        "AddPartitionsToTxn", 3, lambda ground: adding("r-open", _of(ground, later, stranger=stranger), topics)
    )


def verify(later: int) -> Request:
    return Request(
        "AddPartitionsToTxn", 5, lambda ground: batched("r-open", _of(ground, later), {"r-log": [1]}, verify=True)
    )


def position(topic: str, later: int = 0, *, name: str = "r-open", version: int = 5, stranger: bool = False) -> Request:
    def values(ground: Ground) -> Values:
        producer = _of(ground, later, stranger=stranger)
        who = {"transactional_id": name, "producer_id": producer[0], "producer_epoch": producer[1]}
        return {**who, "group_id": "r-group", "topics": [{"name": topic, "partitions": [PLACE]}]}

    return Request("TxnOffsetCommit", version, values)


def plain_position(topic: str) -> Request:
    group = {"group_id": "r-group", "member_id": "", "generation_id_or_member_epoch": -1}
    return Request("OffsetCommit", 9, lambda _: {**group, "topics": [{"name": topic, "partitions": [PLACE]}]})


def marker(
    later: int = 0, *, coordinator: int = 0, topic: str = "r-log", version: int = 0, marked: bool = False
) -> Request:
    """Of the open transaction, or of the one that an operator has ended."""

    def values(ground: Ground) -> Values:
        producer = ground.marked if marked else _of(ground, later)
        return {"markers": [_marker(producer, coordinator, topic, 0 if marked else 1, version)]}

    return Request("WriteTxnMarkers", 2 if version else 1, values)


PLACE = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}


def _marker(producer: tuple[int, int], coordinator: int, topic: str, partition: int, version: int = 0) -> Values:
    return {
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [partition]}],
        "coordinator_epoch": coordinator,
        "transaction_version": version,
    }


def _raised(producer: tuple[int, int], later: int) -> tuple[int, int]:
    return producer[0], producer[1] + later


def _of(ground: Ground, later: int = 0, *, stranger: bool = False) -> tuple[int, int]:
    return (STRANGER, 0) if stranger else _raised(ground.open, later)


ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
EPOCH = "INVALID_PRODUCER_EPOCH"
FENCED = "PRODUCER_FENCED"
MAPPING = "INVALID_PRODUCER_ID_MAPPING"
RECORD = "INVALID_RECORD"
STATE = "INVALID_TXN_STATE"
TIME = "INVALID_TRANSACTION_TIMEOUT"
GONE = "UNKNOWN_TOPIC_OR_PARTITION"

CASES = (
    # Sequences and epochs of a producer without transactions.
    Case("a gap", plain(5, 7), ORDER),
    Case("half of it again", plain(5, 1, count=2), ORDER),
    Case("an older epoch", plain(4, 2), EPOCH),
    Case("a new epoch in the middle", plain(6, 3), ORDER),
    Case("a negative epoch", plain(-1, 2), EPOCH),
    Case("no sequence", plain(5, -1), RECORD),
    Case("a marker from a client", plain(5, 2, CONTROL), RECORD),
    # The same in a transaction.
    Case("a gap in it", inside(9), ORDER),
    Case("a gap in it, older", inside(9, api=9), ORDER),
    Case("not transactional in it", inside(2, attributes=0, name=None), STATE),
    Case("an older epoch in it", inside(0, later=-1), EPOCH),
    Case("a newer epoch in it", inside(0, later=1), EPOCH),
    Case("a newer epoch in it, older", inside(0, later=1, api=9), EPOCH),
    Case("under another id", elsewhere("r-ended"), MAPPING),
    Case("under an id that is not known", elsewhere("r-bad"), MAPPING),
    Case("a stranger under its id", elsewhere("r-open", stranger=True), MAPPING),
    Case("not added", elsewhere("r-open", api=9), STATE),
    Case("not added, newer", elsewhere("r-open", api=11), "TRANSACTION_ABORTABLE"),
    # The coordinator of transactions.
    Case("no time", begin("r-bad", time_ms=0), TIME),
    Case("negative time", begin("r-bad", time_ms=-1), TIME),
    Case("too much time", begin("r-bad", time_ms=900_001, version=4), TIME),
    Case("an empty id", begin(""), "INVALID_REQUEST"),
    Case("a producer id alone", begin("r-bad", producer=(5, -1)), "INVALID_REQUEST"),
    Case("a stranger goes on", begin("r-open", producer=(STRANGER, 0)), FENCED),
    Case("an epoch that is over goes on", go_on_after_the_end(), FENCED),
    Case("end: an older epoch", end(-1), FENCED),
    Case("end: an older epoch, older", end(-1, version=1), EPOCH),
    Case("end: a newer epoch", end(1), FENCED),
    Case("end: a stranger", end(stranger=True), MAPPING),
    Case("end: an id that is not known", end(name="r-bad"), MAPPING),
    Case("end: otherwise than it was", end_again(0, commit=False), STATE),
    Case("end: nothing", end_again(1, commit=True), STATE),
    Case("add: an older epoch", add({"r-log": [0]}, -1), FENCED),
    Case("add: a stranger", add({"r-log": [0]}, stranger=True), MAPPING),
    Case("add: what is gone", add({"r-log": [0], "r-gone": [0]}), f"OPERATION_NOT_ATTEMPTED {GONE}"),
    Case("verify: an older epoch", verify(-1), FENCED),
    # Positions.
    Case("position: what is gone", position("r-gone"), GONE),
    Case("position: an older epoch", position("r-log", -1), EPOCH),
    Case("position: a newer epoch", position("r-log", 1), EPOCH),
    Case("position: a stranger", position("r-log", stranger=True), MAPPING),
    Case("position: an id that is not known", position("r-log", name="r-bad"), MAPPING),
    Case("position: not added", position("r-log", version=3), STATE),
    Case("position: what is gone, outside", plain_position("r-gone"), GONE),
    # Markers.
    Case("marker: an older epoch", marker(-1), EPOCH),
    Case("marker: the same epoch, version 2", marker(version=2), EPOCH),
    Case(
        "marker: an older coordinator",
        marker(coordinator=COORDINATOR - 1, topic="r-log", marked=True),
        "TRANSACTION_COORDINATOR_FENCED",
    ),
    Case("marker: where nothing is", marker(topic="r-gone"), GONE),
    # Records.
    Case("no key", record("r-compacted", b"v"), RECORD),
    Case("no key in one of them", record("r-compacted", (b"k", b"v"), b"v"), RECORD),
    Case("too early", record("r-timely", b"v", after_ms=-2 * HOUR_MS), "INVALID_TIMESTAMP"),
    Case("too late", record("r-timely", b"v", after_ms=2 * HOUR_MS), "INVALID_TIMESTAMP"),
)
"""In this order: Kafka remembers the newer epoch that it refused, and refuses whatever else its producer sends then."""
