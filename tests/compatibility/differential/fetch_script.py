"""Fetch and its sessions, ListOffsets, OffsetForLeaderEpoch, DeleteRecords: positions, epochs, limits."""

from typing import Any

from tests.compatibility.differential.batches import EPOCH_2023, batch
from tests.compatibility.differential.side import Side

UNKNOWN_ID = b"unknown topic id"
FETCH = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**30}
CONSUMER, DEBUGGER = -1, -2


def run(side: Side) -> None:
    topic_id = side.topic("read", 3, retention_ms="-1")
    for start in range(4):  # offsets 0-2, 3-5, 6-8, 9-11
        sent = batch(*(b"%d" % (start * 3 + number) for number in range(3)), timestamp=EPOCH_2023 + start * 100)
        _append(side, topic_id, sent)
    _append(side, topic_id, batch(b"late in time", timestamp=EPOCH_2023 + 50))
    _append(side, topic_id, batch(b"x" * 5_000, timestamp=EPOCH_2023 + 400))
    reader = Reader(side, topic_id)
    _positions(reader)
    _limits(reader)
    _places(reader)
    _epochs(reader)
    _sessions(reader)
    _list_offsets(side)
    _epoch_ends(side)
    _delete_records(side)
    _positions(reader)
    _list_offsets(side)


def _append(side: Side, topic_id: bytes, records: bytes) -> None:
    data = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": records}]}]
    side.quiet("Produce", 13, acks=-1, timeout_ms=5000, topic_data=data)


class Reader:
    """Fetches from the topic of the script."""

    def __init__(self, side: Side, topic_id: bytes) -> None:
        self.side = side
        self.id = topic_id

    def topics(self, *partitions: dict[str, Any]) -> list[dict[str, Any]]:
        wide = [{"partition_max_bytes": 2**20, **each} for each in partitions]
        return [{"topic": "read", "topic_id": self.id, "partitions": wide}]

    def fetch(self, label: str, *versions: int, **values: Any) -> None:
        """One partition's values, and those of the request under their own names."""
        request = {
            name: values.pop(name)
            for name in ("max_wait_ms", "min_bytes", "max_bytes", "isolation_level")
            if name in values
        }
        for version in versions or (4, 18):
            self.side.ask(
                label, "Fetch", version, **{**FETCH, **request}, topics=self.topics({"partition": 0, **values})
            )


def _positions(reader: Reader) -> None:
    for version in range(4, 19):
        reader.fetch("from 0", version, fetch_offset=0)
    for offset in (1, 3, 4, 11, 12, 13, 14, 15, -1, -2, 2**63 - 1, -(2**63)):
        reader.fetch(f"from {offset}", fetch_offset=offset)
    reader.fetch("committed only", fetch_offset=0, isolation_level=1)
    reader.fetch("an unknown isolation level", fetch_offset=0, isolation_level=7)
    reader.fetch("an empty partition", partition=1, fetch_offset=0)
    reader.fetch("an empty partition, beyond", partition=1, fetch_offset=1)


def _limits(reader: Reader) -> None:
    for size in (0, 1, 100, -1, 2**31 - 1):
        reader.fetch(f"partition_max_bytes {size}", fetch_offset=3, partition_max_bytes=size)
        reader.fetch(f"max_bytes {size}", fetch_offset=3, max_bytes=size)
    reader.fetch("a large first batch", fetch_offset=13, partition_max_bytes=10, max_bytes=10)
    reader.fetch("more than there is", fetch_offset=3, min_bytes=2**30, max_wait_ms=50)
    reader.fetch("a negative wait", fetch_offset=14, max_wait_ms=-1)
    reader.fetch("negative min_bytes", fetch_offset=14, min_bytes=-1, max_wait_ms=50)
    two = reader.topics({"partition": 0, "fetch_offset": 3}, {"partition": 1}, {"partition": 0, "fetch_offset": 9})
    reader.side.both("one partition twice", "Fetch", **FETCH, topics=two[:1])
    reader.side.both(
        "one topic twice", "Fetch", **FETCH, topics=reader.topics({"partition": 0}) + reader.topics({"partition": 1})
    )
    reader.side.both(
        "limited over two partitions",
        "Fetch",
        **{**FETCH, "max_bytes": 10},
        topics=reader.topics({"partition": 1}, {"partition": 0}),
    )


def _places(reader: Reader) -> None:
    side = reader.side
    side.both("no topics", "Fetch", **FETCH, topics=[])
    side.both("no partitions", "Fetch", **FETCH, topics=reader.topics())
    for index in (3, -1, 2**31 - 1):
        reader.fetch(f"partition {index}", partition=index, max_wait_ms=10_000)
    for name, topic_id in (("nowhere", UNKNOWN_ID), ("", bytes(16)), ("bad name!", b"x" * 16)):
        unknown = [{"topic": name, "topic_id": topic_id, "partitions": [{"partition": 0}]}]
        side.both(f"topic {name!r}", "Fetch", 12, **{**FETCH, "max_wait_ms": 10_000}, topics=unknown)
        side.both(f"topic {name!r} and another", "Fetch", 12, **FETCH, topics=unknown + reader.topics({"partition": 0}))
    side.both(
        "another cluster's id", "Fetch", **FETCH, cluster_id="someone else", topics=reader.topics({"partition": 0})
    )
    side.both("a rack", "Fetch", **FETCH, rack_id="r1", topics=reader.topics({"partition": 0}))
    side.both(
        "a replica id",
        "Fetch",
        **FETCH,
        replica_id=7,
        replica_state={"replica_id": 7},
        topics=reader.topics({"partition": 0}),
    )
    side.both(
        "a debugger",
        "Fetch",
        **FETCH,
        replica_id=-2,
        replica_state={"replica_id": -2},
        topics=reader.topics({"partition": 0}),
    )


def _epochs(reader: Reader) -> None:
    for epoch in (-1, 0, 1, 99, -2):
        reader.fetch(f"leader epoch {epoch}", 9, 18, current_leader_epoch=epoch, fetch_offset=14)
    for epoch in (-1, 0, 1, 99):
        reader.fetch(
            f"last fetched epoch {epoch}", 12, 18, last_fetched_epoch=epoch, fetch_offset=14, current_leader_epoch=0
        )


def _sessions(reader: Reader) -> None:
    """The id of a session is the broker's choice; the script remembers it."""
    side = reader.side
    whole = reader.topics({"partition": 0, "fetch_offset": 12}, {"partition": 1})
    for version in (7, 12, 13, 18):

        def ask(
            label: str, session: int, epoch: int, topics: Any = (), forgotten: Any = (), version: int = version
        ) -> Any:
            return side.ask(label, "Fetch", version, **FETCH, session_id=session, session_epoch=epoch,
                            topics=list(topics), forgotten_topics_data=list(forgotten))  # fmt: skip

        known = side.quiet("Fetch", version, **FETCH, session_id=0, session_epoch=0, topics=whole).session_id
        side.names[known] = "the session"
        side.note(f"a session is given, v{version}", "some" if known else "none")
        ask("nothing new", known, 1)
        ask("a partition moves", known, 2, reader.topics({"partition": 0, "fetch_offset": 13}))
        ask("it is all read", known, 3, reader.topics({"partition": 0, "fetch_offset": 14}))
        ask("the wrong epoch", known, 3)
        ask("the wrong epoch ahead", known, 9)
        ask("an unknown session", known + 1, 1)
        ask("an unknown session ends", known + 1, -1, whole)
        ask(
            "an unknown topic joins",
            known,
            4,
            [{"topic": "nowhere", "topic_id": UNKNOWN_ID, "partitions": [{"partition": 0}]}],
        )
        ask("the unknown topic again", known, 5)
        ask("a partition that is not there joins", known, 6, reader.topics({"partition": 9}))
        ask("and goes", known, 7, (), [{"topic": "read", "topic_id": reader.id, "partitions": [9, 0]}])
        ask(
            "something never there goes", known, 8, (), [{"topic": "nowhere", "topic_id": b"q" * 16, "partitions": [9]}]
        )
        ask("partition 0 is back", known, 9, reader.topics({"partition": 0, "fetch_offset": 3}))
        ask("an offset out of range", known, 10, reader.topics({"partition": 0, "fetch_offset": 99}))
        ask("it ends", known, -1, whole)
        ask("it is gone", known, 11)
        ask("epoch -1 without session", 0, -1, whole)
        ask("an incremental fetch without session", 0, 5, whole)


def _list_offsets(side: Side) -> None:
    def ask(
        label: str, *versions: int, replica: int = CONSUMER, name: str = "read", isolation: int = 0, **values: Any
    ) -> None:
        for version in versions or (1, 11):
            topics = [{"name": name, "partitions": [{"partition_index": 0, **values}]}]
            side.ask(
                label,
                "ListOffsets",
                version,
                replica_id=replica,
                isolation_level=isolation,
                timeout_ms=1000,
                topics=topics,
            )

    for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100):
        ask(f"timestamp {timestamp}", 1, 7, 8, 9, 10, 11, timestamp=timestamp)
        ask(f"timestamp {timestamp} of an empty partition", timestamp=timestamp, partition_index=1)
    for time in (0, 1, 2, 3, 50, 51, 99, 102, 103, 200, 302, 400, 401):
        ask(f"at {time}", timestamp=EPOCH_2023 + time)
    ask("at time 0", timestamp=0)
    ask("at the end of time", timestamp=2**63 - 1)
    for version in range(1, 12):
        ask("the end", version, timestamp=-1)
    ask("committed only", 2, 11, isolation=1, timestamp=-1)
    for epoch in (-1, 0, 1, -2):
        ask(f"leader epoch {epoch}", 4, 11, timestamp=-1, current_leader_epoch=epoch)
    for index in (3, -1):
        ask(f"partition {index}", timestamp=-1, partition_index=index)
    for name in ("nowhere", "", "bad name!"):
        ask(f"topic {name!r}", name=name, timestamp=-1)
    for replica in (0, 5, DEBUGGER, -3):
        ask(f"replica id {replica}", replica=replica, timestamp=-1)
    twice = {
        "name": "read",
        "partitions": [{"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}],
    }
    side.both("a partition twice", "ListOffsets", replica_id=CONSUMER, topics=[twice])
    one = {"name": "read", "partitions": [{"partition_index": 0, "timestamp": -1}]}
    side.both("a topic twice", "ListOffsets", replica_id=CONSUMER, topics=[one, one])
    side.both("no topics", "ListOffsets", replica_id=CONSUMER, topics=[])


def _epoch_ends(side: Side) -> None:
    def ask(label: str, replica: int = CONSUMER, name: str = "read", **values: Any) -> None:
        topics = [{"topic": name, "partitions": [{"partition": 0, **values}]}]
        side.both(label, "OffsetForLeaderEpoch", replica_id=replica, topics=topics)

    for epoch in (-1, 0, 1, 99, -2, 2**31 - 1):
        ask(f"the end of epoch {epoch}", leader_epoch=epoch)
        ask(f"the end of epoch {epoch} where nothing is", leader_epoch=epoch, partition=1)
        ask(f"in epoch {epoch}", leader_epoch=0, current_leader_epoch=epoch)
    ask("a partition that is not there", leader_epoch=0, partition=7)
    ask("a topic that is not there", name="nowhere", leader_epoch=0)
    for replica in (DEBUGGER, 0, 5):
        ask(f"replica id {replica}", replica=replica, leader_epoch=0)
    side.both("no topics", "OffsetForLeaderEpoch", topics=[])
    one = {"topic": "read", "partitions": [{"partition": 0, "leader_epoch": 0}] * 2}
    side.both("twice", "OffsetForLeaderEpoch", replica_id=CONSUMER, topics=[one, one])


def _delete_records(side: Side) -> None:
    def ask(label: str, name: str, *partitions: tuple[int, int]) -> None:
        named = [{"partition_index": index, "offset": offset} for index, offset in partitions]
        side.both(label, "DeleteRecords", timeout_ms=5000, topics=[{"name": name, "partitions": named}])

    ask("delete nothing", "read", (0, 0))
    ask("delete before an offset in a batch", "read", (0, 4))
    ask("delete before an older one", "read", (0, 2))
    ask("delete beyond the end", "read", (0, 99))
    ask("delete from nowhere", "read", (0, -2), (3, 0), (-1, 0))
    ask("delete in an unknown topic", "nowhere", (0, 0))
    ask("delete in a bad topic", "bad name!", (0, 0))
    ask("delete twice", "read", (0, 5), (0, 6))
    ask("delete in an internal topic", "__consumer_offsets", (0, 0))
    ask("delete up to the end of what is empty", "read", (1, -1))
    side.both("delete in no topics", "DeleteRecords", timeout_ms=5000, topics=[])
    side.both(
        "a negative timeout",
        "DeleteRecords",
        timeout_ms=-1,
        topics=[{"name": "read", "partitions": [{"partition_index": 0, "offset": 6}]}],
    )
