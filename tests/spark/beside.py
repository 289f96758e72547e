"""Topics on which Tidelog's source and Spark's own connector are read side by side, and the cases.

`BATCHES` and `STREAMS` give the same rows in both; what `REFUSED…` has is an error in both, with what ours must say and what
theirs does; `STRICTER` is an error in ours alone.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.spark.records import delete_before, led
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Admin, Producer
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

EARLY, MIDDLE, LATE = 1_700_000_000_000, 1_700_000_001_000, 1_700_000_002_000

Options = dict[str, Any]
Refused = dict[str, tuple[Options, str, str]]
WITHIN_S = 240


def fill(bootstrap: str) -> None:
    """The same topics on either side."""
    headers = [("h", b"1"), ("h", None), ("", b"")]
    _create(bootstrap, plain=3, places=2, shortened=1, appended=1, transacted=1)
    with Producer(bootstrap) as producer:
        for partition in range(3):
            for n in range(10):
                time = EARLY if n < 5 else MIDDLE if n < 8 else LATE + partition
                more: Options = {"key": b"k"} if n < 5 else {"headers": headers} if n < 8 else {}
                producer.send("plain", b"%d" % (100 * partition + n), partition=partition, timestamp=time, **more)
            for value in (None, b""):
                producer.send("plain", value, partition=partition, timestamp=LATE)
        for n in range(7):
            producer.send("places", b"%d" % n, partition=1, timestamp=EARLY)
        assert all(delivery.is_acknowledged for delivery in producer.flush())
    with Producer(bootstrap, compression_type="zstd") as producer:
        for topic in ("shortened", "appended"):
            for n in range(10):
                producer.send(topic, b"%d" % n, partition=0)
        assert all(delivery.is_acknowledged for delivery in producer.flush())
    delete_before(bootstrap, "shortened", 6)
    _transact(bootstrap)


def _create(bootstrap: str, **partitions: int) -> None:
    kept = CreatableTopicConfig(name="retention.ms", value="-1")
    stamped = CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime")
    wanted = [
        CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=1,
            configs=[kept, stamped] if name == "appended" else [kept],
        )
        for name, count in partitions.items()
    ]
    with Admin(bootstrap) as admin:
        assert not any(topic.error_code for topic in admin.ask(CreateTopicsRequest(topics=wanted)).topics)
    for name in partitions:
        led(bootstrap, name)


def _transact(bootstrap: str) -> None:
    """Committed, aborted, committed; then one that stays open."""
    with TransactionalProducer(bootstrap, "beside") as producer:
        for number, commits in enumerate((True, False, True)):
            producer.begin()
            for n in range(3):
                producer.send("transacted", b"%d" % (10 * number + n), partition=0)
            producer.flush()  # what is not sent yet is not aborted but dropped
            (producer.commit if commits else producer.abort)()
    hanging = TransactionalProducer(bootstrap, "hanging", transaction_timeout_ms=900_000)
    hanging.begin()
    hanging.send("transacted", b"30", partition=0)
    hanging.flush()
    hanging.abandon()


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _given(options: Options, bootstrap: str) -> dict[str, str]:
    """The connector wants a group to stay with one cluster for as long as its JVM runs."""
    return {name: _text(value).replace("{bootstrap}", bootstrap) for name, value in options.items()}


def _all(value: int, topic: str = "plain", partitions: int = 3) -> dict[str, dict[str, int]]:
    return {topic: {str(number): value for number in range(partitions)}}


PLAIN = {"subscribe": "plain"}
FROM_START = {**PLAIN, "startingOffsets": "earliest"}
COMMITTED = {"subscribe": "transacted", "kafka.isolation.level": "read_committed"}

BATCHES: dict[str, Options] = {
    "everything": PLAIN,
    "headers": {**PLAIN, "includeHeaders": "true"},
    "several topics": {"subscribe": "plain, places"},
    "a pattern": {"subscribePattern": "pla.*"},
    "assigned": {"assign": {"plain": [0, 2], "places": [1]}},
    "named ends": {**PLAIN, "startingOffsets": "EARLIEST", "endingOffsets": "latest"},
    "offsets": {
        **PLAIN,
        "startingOffsets": {"plain": {"0": 3, "1": -2, "2": 12}},
        "endingOffsets": {"plain": {"0": 9, "1": 4, "2": -1}},
    },
    "no offsets": {**PLAIN, "startingOffsets": _all(5), "endingOffsets": _all(5)},
    "one time": {**PLAIN, "startingTimestamp": MIDDLE},
    "one time to one time": {**PLAIN, "startingTimestamp": EARLY + 1, "endingTimestamp": LATE + 1},
    "times": {
        **PLAIN,
        "startingOffsetsByTimestamp": {"plain": {"0": EARLY, "1": MIDDLE, "2": LATE}},
        "endingOffsetsByTimestamp": {"plain": {"0": MIDDLE, "1": LATE, "2": LATE + 99}},
    },
    "a late time, from the end": {
        **PLAIN,
        "startingTimestamp": LATE + 1,
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "a time stands over offsets": {**PLAIN, "startingTimestamp": MIDDLE, "startingOffsets": _all(0)},
    "many tasks": {"subscribe": "plain,places", "minPartitions": "9"},
    "small tasks": {"subscribe": "plain,places", "maxRecordsPerPartition": "2", "minPartitions": "3"},
    "what was deleted, if it may": {"subscribe": "shortened", "startingOffsets": _all(2, "shortened", 1), "failOnDataLoss": "false"},
    "from where it begins": {"subscribe": "shortened"},
    "the log's time, compressed": {"subscribe": "appended", "startingOffsets": _all(4, "appended", 1)},
    "transactions": {"subscribe": "transacted"},
    "committed ones": COMMITTED,
    "committed ones, from a hole": {**COMMITTED, "startingOffsets": _all(3, "transacted", 1)},
    "what a stream has": {**PLAIN, "maxOffsetsPerTrigger": "3", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "1m"},
    "groups and the client": {
        **PLAIN,
        "groupIdPrefix": "mine",
        "kafka.client.id": "beside",
        "kafka.fetch.max.bytes": "100",
        "kafka.max.partition.fetch.bytes": "100",
        "kafka.receive.buffer.bytes": "65536",
        "kafka.security.protocol": "PLAINTEXT",
        "kafkaConsumer.pollTimeoutMs": "60000",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "10",
    },
    "a group's name": {**PLAIN, "kafka.group.id": "mine at {bootstrap}"},
}  # fmt: skip

STREAMS: dict[str, Options] = {
    "from the start": FROM_START,
    "from the end": PLAIN,
    "small batches": {**FROM_START, "maxOffsetsPerTrigger": "5", "includeHeaders": "true"},
    "from offsets": {**PLAIN, "startingOffsets": {"plain": {"0": 3, "1": -2, "2": -1}}, "minPartitions": "7"},
    "from a time": {**PLAIN, "startingTimestamp": MIDDLE, "maxRecordsPerPartition": "2"},
    "from times": {
        "assign": {"plain": [0, 1]},
        "startingOffsetsByTimestamp": {"plain": {"0": LATE + 99, "1": LATE}},
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "at least so many": {**FROM_START, "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1ms"},
    "by a pattern": {"subscribePattern": "(plain|places)", "startingOffsets": "earliest"},
    "what was deleted, if it may": {
        "subscribe": "shortened",
        "startingOffsets": _all(2, "shortened", 1),
        "failOnDataLoss": "false",
    },
    "committed ones": {**COMMITTED, "startingOffsets": "earliest"},
    "behind the end, if it may": {**PLAIN, "startingOffsets": _all(50), "failOnDataLoss": "false"},
    "for groups, clients and patience": {
        **FROM_START,
        "groupIdPrefix": "mine",
        "kafka.fetch.max.bytes": "100",
        "kafka.max.partition.fetch.bytes": "100",
        "kafkaConsumer.pollTimeoutMs": "60000",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "10",
    },
    "a group's name": {**FROM_START, "kafka.group.id": "streams at {bootstrap}"},
}
WITHOUT_ROWS = ("from the end", "behind the end, if it may")

REFUSED_OPTIONS: Refused = {
    "nothing chosen": ({}, "one of the options assign, subscribe", "One of the following options must be specified"),
    "two ways to choose": (
        {**PLAIN, "assign": {"plain": [0]}},
        "only one of the options assign, subscribe, subscribePattern can be given",
        "Only one of the following options can be specified",
    ),
    "no topics": ({"subscribe": " ,"}, "'subscribe' names nothing", "No topics to subscribe to"),
    "no pattern": ({"subscribePattern": " "}, "'subscribePattern' is an empty", "Pattern to subscribe is empty"),
    "no partitions": ({"assign": "plain"}, "'assign' is expected as", "No topicpartitions to assign"),
    "the reset": ({**PLAIN, "kafka.auto.offset.reset": "latest"}, "auto.offset.reset' is not supp", "'auto.offset.reset' is not supp"),
    "deserializers": ({**PLAIN, "kafka.key.deserializer": "x"}, "key.deserializer' is not supp", "'key.deserializer' is not supp"),
    "of values": ({**PLAIN, "kafka.value.deserializer": "x"}, "value.deserializer' is not supp", "'value.deserializer' is not"),
    "auto commit": ({**PLAIN, "kafka.enable.auto.commit": "true"}, "enable.auto.commit' is not supp", "'enable.auto.commit' is not"),
    "interceptors": ({**PLAIN, "kafka.interceptor.classes": "x"}, "interceptor.classes' is not supp", "'interceptor.classes' is not"),
    "a batch from the end": ({**PLAIN, "startingOffsets": "latest"}, "starting offset cannot be latest", "starting offset can't be latest"),
    "a part from the end": ({**PLAIN, "startingOffsets": _all(-1)}, "starting offset cannot be latest", "can't be latest for batch"),
    "a batch to the start": ({**PLAIN, "endingOffsets": "earliest"}, "ending offset cannot be earliest", "ending offset can't be earliest"),
    "a part to the start": ({**PLAIN, "endingOffsets": _all(-2)}, "ending offset cannot be earliest", "can't be earliest for batch"),
    "a strategy of nobody": (
        {**PLAIN, "startingTimestamp": EARLY, "startingOffsetsByTimestampStrategy": "first"},
        "'startingOffsetsByTimestampStrategy' is error or latest",
        "No value found for 'FIRST'",
    ),
    "no JSON": ({**PLAIN, "startingOffsets": "{"}, "'startingOffsets' is expected as", "Expected e.g."),
    "no time": ({**PLAIN, "startingTimestamp": "noon"}, "'startingTimestamp' is one time", "Expected a single long value"),
    "no tasks": ({**PLAIN, "minPartitions": "0"}, "'minPartitions' must be an integer of at least 1", "minPartitions must be positive"),
    "no records": ({**PLAIN, "maxRecordsPerPartition": "0"}, "'maxRecordsPerPartition' must be an integer of at least 1", "must be positive"),
    "more at least than at most": (
        {**PLAIN, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
        "'minOffsetsPerTrigger' .5. is higher than",
        "is higher than the maxOffsetsPerTrigger",
    ),
}  # fmt: skip
"""What both refuse before a broker is asked."""

REFUSED: Refused = {
    "backwards": (
        {**PLAIN, "startingOffsets": _all(5), "endingOffsets": _all(4)},
        "the start 5 of option 'startingOffsets' is behind the end 4",
        "start offset 5 is greater than the end offset 4",
    ),
    "behind the end": ({**PLAIN, "startingOffsets": _all(50)}, "'startingOffsets' says 50, but the partition ends at", "start offset"),
    "too few offsets": ({**PLAIN, "startingOffsets": _all(1, partitions=2)}, "nothing is said of plain-2", "don't match what are assigned"),
    "too many offsets": ({**PLAIN, "startingOffsets": _all(1, partitions=4)}, "plain-3 is not there", "don't match what are assigned"),
    "ends of others": (
        {**PLAIN, "endingOffsets": _all(5, partitions=4)},
        "'endingOffsets': plain-3 is not there",
        "don't match what are assigned",
    ),
    "an end of a topic of nobody": (
        {**PLAIN, "endingOffsets": {**_all(5), "nosuch": {"0": 1}}},
        "'endingOffsets': nosuch-0 is not there",
        "don't match what are assigned",
    ),
    "too few times": ({**PLAIN, "startingOffsetsByTimestamp": _all(1, partitions=2)}, "nothing is said of plain-2", "don't match what"),
    "too many times": (
        {**PLAIN, "startingOffsetsByTimestamp": _all(1, partitions=4)},
        "'startingOffsetsByTimestamp': plain-3 is not there",
        "don't match what",
    ),
    "times to end at, of others": (
        {**PLAIN, "endingOffsetsByTimestamp": _all(1, partitions=4)},
        "'endingOffsetsByTimestamp': plain-3 is not there",
        "don't match what",
    ),
    "too late": ({**PLAIN, "startingTimestamp": LATE * 2}, "has no record at or after", "No offset matched"),
    "no such topic": ({"subscribe": "nosuch"}, "'subscribe': the cluster has no nosuch", "UnknownTopicOrPartition"),
    "what was deleted": (
        {"subscribe": "shortened", "startingOffsets": _all(2, "shortened", 1)},
        "'startingOffsets' says 2, but offsets below 6 were deleted",
        "data may have been lost",
    ),
}  # fmt: skip

REFUSED_OPTIONS_OF_STREAMS: Refused = {
    "an end": ({**PLAIN, "endingOffsets": "latest"}, "'endingOffsets' is not valid in streaming", "ending offset not valid in stre"),
    "times to end at": (
        {**PLAIN, "endingOffsetsByTimestamp": _all(5)},
        "'endingOffsetsByTimestamp' is not valid in streaming",
        "ending timestamp not valid in streaming",
    ),
}  # fmt: skip

REFUSED_STREAMS: Refused = {
    "behind the end": ({**PLAIN, "startingOffsets": _all(50)}, "'startingOffsets' says 50", "was changed from 50 to 12"),
}  # fmt: skip

STRICTER: dict[str, tuple[Options, str]] = {
    "an option of nobody": ({**PLAIN, "startOffsets": "earliest"}, "unknown option 'startoffsets'"),
    "a client's option of nobody": ({**PLAIN, "kafka.fetch.most": "1"}, "'kafka.fetch.most' is not an option"),
    "partitions that are not there": ({"assign": {"plain": [0, 7]}}, "'assign': the cluster has no plain-7"),
    "a protocol of nobody": (
        {**PLAIN, "kafka.security.protocol": "TLS"},
        "'kafka.security.protocol' is one of PLAINTEXT, SSL",
    ),
}


def batch(spark, source, bootstrap, options):
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**_given(options, bootstrap)).load()


def rows(frame):
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def both(do):
    """The same of ours and of theirs, at the same time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(do, ("tidelog", "kafka")))


def streamed(spark, source, bootstrap, options, folder, name):
    """The rows of a query that reads what is there, and how many batches had any."""
    reader = spark.readStream.format(source).option("kafka.bootstrap.servers", bootstrap)
    writer = reader.options(**_given(options, bootstrap)).load().writeStream.format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(folder / source)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(WITHIN_S)
        return rows(spark.table(name)), sum(progress["numInputRows"] > 0 for progress in query.recentProgress)
    finally:
        query.stop()
