"""Transactions: who may have an id, what may be added, ended and marked, what readers of committed records see."""

from collections.abc import Callable
from typing import Any

from tests.compatibility.differential.batches import batch
from tests.compatibility.differential.groups_script import await_coordinator
from tests.compatibility.differential.side import Side
from tests.waiting import wait_for
from tidelog.errors import ErrorCode
from tidelog.wire.records import TRANSACTIONAL

TIMEOUT = 600_000
"""Longer than the script takes on any machine, and less than a broker allows."""
AGAIN = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
GROUPS = ("g", "pending")


def run(side: Side) -> None:
    side.topic("tx", 2)
    await_coordinator(side, "g")
    _await_transactions(side)
    _bad(side)
    _older(side)
    _newer(side)
    _fenced(side)
    _read(side)
    _offsets(side)
    _markers(side)


def _await_transactions(side: Side) -> None:
    for name in ("w", "x", "y", "z", "r", "o", "bad"):
        await_id(side, name)
    for version in (1, 3):
        side.ask("find", "FindCoordinator", version, key="w", key_type=1)
    side.ask("find", "FindCoordinator", 6, coordinator_keys=["w", ""], key_type=1)


def await_id(side: Side, name: str) -> None:
    """Until somebody coordinates the id, and gives producer ids."""
    found = lambda: side.quiet("FindCoordinator", 6, key_type=1, coordinator_keys=[name]).coordinators[0]  # noqa: E731
    wait_for(lambda: not found().error_code, f"{side}: a coordinator of {name}")
    _settled(lambda: side.quiet("InitProducerId", 5, **init(f"warm-{name}")).error_code)
    _settled(lambda: side.quiet("DescribeTransactions", 0, transactional_ids=[name]).transaction_states[0].error_code)


def _settled(look: Callable[[], int]) -> None:
    wait_for(lambda: look() not in AGAIN, "an answer other than to ask again")


def init(name: str | None, producer_id: int = -1, epoch: int = -1, timeout: int = TIMEOUT) -> dict[str, Any]:
    return {
        "transactional_id": name,
        "transaction_timeout_ms": timeout,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }


def begun(side: Side, name: str) -> tuple[int, int]:
    """(producer id, epoch) of a producer that takes the id over."""
    _settled(lambda: side.quiet("InitProducerId", 5, **init(name)).error_code)
    found = side.quiet("InitProducerId", 5, **init(name))
    return found.producer_id, found.producer_epoch


def adding(name: str, producer: tuple[int, int], partitions: dict[str, list[int]]) -> dict[str, Any]:
    topics = [{"name": topic, "partitions": indexes} for topic, indexes in partitions.items()]
    return {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": producer[0],
        "v3_and_below_producer_epoch": producer[1],
        "v3_and_below_topics": topics,
    }


def batched(name: str, producer: tuple[int, int], partitions: dict[str, list[int]], *, verify: bool) -> dict[str, Any]:
    topics = [{"name": topic, "partitions": indexes} for topic, indexes in partitions.items()]
    one = {"transactional_id": name, "producer_id": producer[0], "producer_epoch": producer[1]}
    return {"transactions": [{**one, "verify_only": verify, "topics": topics}]}


def ending(name: str, producer: tuple[int, int], *, commit: bool) -> dict[str, Any]:
    return {
        "transactional_id": name,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "committed": commit,
    }


def produce(
    side: Side,
    label: str,
    version: int,
    name: str | None,
    producer: tuple[int, int],
    sequence: int,
    partition: int = 0,
    **more: Any,
) -> Any:
    """Transactional records, by the topic's name (before version 13)."""
    data = batch(b"one", b"two", attributes=more.pop("attributes", TRANSACTIONAL), producer_id=producer[0],
                 producer_epoch=producer[1], base_sequence=sequence)  # fmt: skip
    topic = {"name": "tx", "partition_data": [{"index": partition, "records": data}]}
    values = {"transactional_id": name, "acks": -1, "timeout_ms": 10_000, "topic_data": [topic]}
    if label:
        return side.ask(label, "Produce", version, **values)
    return side.quiet("Produce", version, **values)


def _describe(side: Side, label: str, name: str) -> None:
    found = side.quiet("DescribeTransactions", 0, transactional_ids=[name])
    for state in found.transaction_states:
        state.transaction_start_time_ms = min(state.transaction_start_time_ms, 0)
    side.record(label, "DescribeTransactions", 0, found)


def _complete(side: Side, name: str) -> None:
    """The markers are written after the end was answered."""

    def state() -> str:
        return side.quiet("DescribeTransactions", 0, transactional_ids=[name]).transaction_states[0].transaction_state

    wait_for(lambda: not state().startswith("Prepare"), f"{side}: the markers of {name}")


def _bad(side: Side) -> None:
    for version in (0, 4, 5):
        side.ask("no id", "InitProducerId", version, **init(""))
        side.ask("no time", "InitProducerId", version, **init("bad", timeout=0))
        side.ask("too much time", "InitProducerId", version, **init("bad", timeout=900_001))
        side.ask("a negative time", "InitProducerId", version, **init("bad", timeout=-1))
    side.ask("a producer id alone", "InitProducerId", 5, **init("bad", 5))
    side.ask("an epoch alone", "InitProducerId", 5, **init("bad", -1, 5))
    nobody = (4_711, 3)
    for name in ("", "bad"):
        side.both(f"end {name!r}", "EndTxn", 1, 2, 4, **ending(name, nobody, commit=True))
        side.both(f"abort {name!r}", "EndTxn", **ending(name, nobody, commit=False))
        for version in range(4):
            side.ask(f"add to {name!r}", "AddPartitionsToTxn", version, **adding(name, nobody, {"tx": [0]}))
            side.ask(f"add nothing to {name!r}", "AddPartitionsToTxn", version, **adding(name, nobody, {}))
            side.ask(
                f"add what is not there to {name!r}",
                "AddPartitionsToTxn",
                version,
                **adding(name, nobody, {"tx": [0, 9], "nope": [0]}),
            )
        for version in (4, 5):
            for verify in (False, True):
                values = batched(name, nobody, {"tx": [1]}, verify=verify)
                side.ask(f"batched add to {name!r}, verify {verify}", "AddPartitionsToTxn", version, **values)
        side.both(
            f"add offsets to {name!r}",
            "AddOffsetsToTxn",
            1,
            2,
            transactional_id=name,
            producer_id=nobody[0],
            producer_epoch=nobody[1],
            group_id="g",
        )
        for version in (7, 9, 10, 11, 12):
            produce(side, f"produce in {name!r}", version, name, nobody, 0)
    produce(side, "produce without an id", 12, None, nobody, 0)
    side.both("describe", "DescribeTransactions", transactional_ids=["", "bad", "never"])
    side.ask("describe none", "DescribeTransactions", 0, transactional_ids=[])
    side.both("list unknown states", "ListTransactions", state_filters=["Ongoing", "Sleeping"])
    side.ask("list by a pattern", "ListTransactions", 2, transactional_id_pattern="nobody.*")
    side.ask("list by a bad pattern", "ListTransactions", 2, transactional_id_pattern="(")
    side.ask("describe producers of nothing", "DescribeProducers", 0, topics=[])
    wanted = [{"name": "tx", "partition_indexes": [0, 9]}, {"name": "nope", "partition_indexes": [0]}]
    side.ask("describe producers", "DescribeProducers", 0, topics=wanted)


def _older(side: Side) -> None:
    """The protocol in which the producer adds its partitions and an end keeps the epoch."""
    who = begun(side, "w")
    side.ask("older: commit nothing", "EndTxn", 3, **ending("w", who, commit=True))
    side.ask("older: abort nothing", "EndTxn", 3, **ending("w", who, commit=False))
    produce(side, "older: not added", 9, "w", who, 0)
    produce(side, "older: not added", 11, "w", who, 0)
    side.ask("older: add", "AddPartitionsToTxn", 3, **adding("w", who, {"tx": [0]}))
    side.ask("older: add again", "AddPartitionsToTxn", 0, **adding("w", who, {"tx": [0]}))
    side.ask("older: verify", "AddPartitionsToTxn", 4, **batched("w", who, {"tx": [0, 1]}, verify=True))
    stale = (who[0], who[1] - 1)
    for version in (0, 3):
        side.ask("older: add with an old epoch", "AddPartitionsToTxn", version, **adding("w", stale, {"tx": [0]}))
        side.ask("older: end with an old epoch", "EndTxn", version, **ending("w", stale, commit=True))
    side.ask("older: end of another", "EndTxn", 3, **ending("w", (1, 0), commit=True))
    produce(side, "older: produce", 9, "w", who, 0)
    produce(side, "older: produce again", 9, "w", who, 0)
    produce(side, "older: a gap", 9, "w", who, 7)
    produce(side, "older: not transactional", 9, "w", who, 2, attributes=0)
    produce(side, "older: another partition", 9, "w", who, 0, 1)
    _describe(side, "older: open", "w")
    side.ask("older: commit", "EndTxn", 4, **ending("w", who, commit=True))
    _complete(side, "w")
    side.ask("older: commit again", "EndTxn", 4, **ending("w", who, commit=True))
    side.ask("older: abort it", "EndTxn", 4, **ending("w", who, commit=False))
    produce(side, "older: after the end", 9, "w", who, 2)
    _describe(side, "older: complete", "w")
    side.ask("older: add after it", "AddPartitionsToTxn", 3, **adding("w", who, {"tx": [0]}))
    produce(side, "older: the next", 9, "w", who, 2)
    side.ask("older: abort", "EndTxn", 0, **ending("w", who, commit=False))
    _complete(side, "w")
    side.ask("older: abort again", "EndTxn", 0, **ending("w", who, commit=False))


def _newer(side: Side) -> None:
    """The protocol in which partitions add themselves and every end raises the epoch."""
    who = begun(side, "x")
    side.ask("newer: commit nothing", "EndTxn", 5, **ending("x", who, commit=True))
    produce(side, "newer: begin in the middle", 12, "x", who, 2)
    produce(side, "newer: produce", 12, "x", who, 0)
    _describe(side, "newer: open", "x")
    side.ask("newer: commit", "EndTxn", 5, **ending("x", who, commit=True))
    _complete(side, "x")
    side.ask("newer: commit again", "EndTxn", 5, **ending("x", who, commit=True))
    side.ask("newer: abort it", "EndTxn", 5, **ending("x", who, commit=False))
    produce(side, "newer: with the epoch before", 12, "x", who, 2)
    side.ask("newer: add with the epoch before", "AddPartitionsToTxn", 3, **adding("x", who, {"tx": [0]}))
    then = (who[0], who[1] + 1)
    produce(side, "newer: a sequence that goes on", 12, "x", then, 2)
    side.ask("newer: abort after a refusal", "EndTxn", 5, **ending("x", then, commit=False))
    _complete(side, "x")
    third = (who[0], who[1] + 2)
    side.ask("newer: abort nothing", "EndTxn", 5, **ending("x", third, commit=False))
    _complete(side, "x")
    _describe(side, "newer: complete", "x")
    side.ask("newer: list", "ListTransactions", 2, state_filters=["CompleteAbort"], transactional_id_pattern="x")
    side.ask("newer: list none", "ListTransactions", 1, producer_id_filters=[1 << 40])


def _fenced(side: Side) -> None:
    who = begun(side, "y")
    produce(side, "fencing: produce", 12, "y", who, 0)
    after = begun(side, "y")
    side.note("fencing: epochs between", after[1] - who[1])
    for version in (9, 11, 12):
        produce(side, "fencing: the one before", version, "y", who, 2)
    for version in (1, 4, 5):
        side.ask("fencing: it commits", "EndTxn", version, **ending("y", who, commit=True))
    for version in (3, 4, 5):
        side.ask("fencing: it goes on", "InitProducerId", version, **init("y", *who))
    side.ask("fencing: a stranger goes on", "InitProducerId", 5, **init("y", 1, 0))
    side.ask("fencing: the present one goes on", "InitProducerId", 5, **init("y", *after))
    side.ask("fencing: it asks again", "InitProducerId", 5, **init("y", *after))
    _describe(side, "fencing: at last", "y")


def _read(side: Side) -> None:
    """Three transactions: committed, aborted, open."""
    side.topic("tr", 1)

    def send(name: str, who: tuple[int, int], value: bytes) -> None:
        data = batch(value, attributes=TRANSACTIONAL, producer_id=who[0], producer_epoch=who[1], base_sequence=0)
        topic = {"name": "tr", "partition_data": [{"index": 0, "records": data}]}
        sent = side.quiet("Produce", 12, transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=[topic])
        assert sent.responses[0].partition_responses[0].error_code == 0, (side, sent)

    for name, commit in (("r1", True), ("r2", False)):
        who = begun(side, name)
        send(name, who, name.encode())
        side.quiet("EndTxn", 5, **ending(name, who, commit=commit))
        _complete(side, name)
    who = begun(side, "r3")
    send("r3", who, b"r3")
    for level in (0, 1):
        for offset in (0, 1, 2, 3, 4, 5):
            wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            found = side.quiet("Fetch", 11, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=level,
                               topics=[{"topic": "tr", "partitions": [wanted]}])  # fmt: skip
            for partition in found.responses[0].partitions:
                partition.records = len(partition.records or b"")
            side.record(f"read at {offset}, level {level}", "Fetch", 11, found)
        for timestamp in (-1, -2):
            place = [{"name": "tr", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
            side.ask(
                f"offset {timestamp}, level {level}",
                "ListOffsets",
                7,
                replica_id=-1,
                isolation_level=level,
                topics=place,
            )


def _offsets(side: Side) -> None:
    """Positions in a transaction: pending, committed, aborted; and who may not commit them."""
    nobody = (4_711, 3)
    who = begun(side, "o")
    place = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}
    topics = [
        {"name": "tx", "partitions": [place, {**place, "partition_index": 9}]},
        {"name": "nope", "partitions": [place]},
    ]

    def commit(label: str, version: int, producer: tuple[int, int], group: str = "pending", **more: Any) -> None:
        values = {"transactional_id": "o", "group_id": group, "producer_id": producer[0], "producer_epoch": producer[1]}
        side.ask(label, "TxnOffsetCommit", version, **values, topics=more.pop("topics", topics), **more)

    def fetch(label: str) -> None:
        groups = [{"group_id": "pending", "topics": [{"name": "tx", "partition_indexes": [0]}]}]
        for stable in (False, True):
            side.ask(f"{label}, stable {stable}", "OffsetFetch", 8, groups=groups, require_stable=stable)

    for version in range(6):
        commit("offsets of nobody", version, nobody)
        commit("offsets of no group", version, who, "")
    commit("offsets that were not added", 4, who)
    commit("nothing that exists", 5, who, topics=topics[1:])
    commit("offsets", 5, who)
    fetch("while it is open")
    commit("offsets of a member that is none", 5, who, generation_id=3, member_id="m")
    commit("offsets of a generation that is none", 5, who, group="other", generation_id=3)
    side.ask("offsets: commit", "EndTxn", 5, **ending("o", who, commit=True))
    _complete(side, "o")
    fetch("committed")
    then = (who[0], who[1] + 1)
    added = {"transactional_id": "o", "producer_id": then[0], "producer_epoch": then[1], "group_id": "pending"}
    side.ask("offsets: add", "AddOffsetsToTxn", 3, **added)
    commit(
        "offsets that were added", 3, then, topics=[{"name": "tx", "partitions": [{**place, "committed_offset": 9}]}]
    )
    fetch("while the next is open")
    side.ask("offsets: abort", "EndTxn", 4, **ending("o", then, commit=False))
    _complete(side, "o")
    fetch("aborted")


def _markers(side: Side) -> None:
    """A transaction that hangs, as an operator ends it."""
    who = begun(side, "z")
    produce(side, "markers: produce", 12, "z", who, 0, 1)

    def write(label: str, version: int, producer: tuple[int, int], coordinator_epoch: int, **more: Any) -> None:
        topics = more.get("topics", [{"name": "tx", "partition_indexes": [1]}])
        marker = {
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "transaction_result": False,
            "topics": topics,
            "coordinator_epoch": coordinator_epoch,
            "transaction_version": more.get("transaction_version", 0),
        }
        side.ask(label, "WriteTxnMarkers", version, markers=[marker])

    where = [{"name": "tx", "partition_indexes": [9]}, {"name": "nope", "partition_indexes": [0]}]
    write("markers: where nothing is", 1, who, 0, topics=where)
    write("markers: an old epoch", 1, (who[0], who[1] - 1), 0)
    write("markers: the same epoch, version 2", 2, who, 0, transaction_version=2)
    write("markers: abort", 1, who, 7)
    write("markers: abort again", 2, who, 7)
    write("markers: an older coordinator", 1, who, 6)
    side.ask("markers: none", "WriteTxnMarkers", 2, markers=[])
    found = side.quiet("DescribeProducers", 0, topics=[{"name": "tx", "partition_indexes": [1]}])
    for producer in found.topics[0].partitions[0].active_producers:
        producer.last_timestamp = min(producer.last_timestamp, 0)
    side.record("markers: producers", "DescribeProducers", 0, found)
