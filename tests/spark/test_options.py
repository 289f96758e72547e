"""Options of a read, without Spark: their names, what they mean, and one sentence for each that is wrong."""

import pytest

from tidelog.client.positions import EARLIEST, LATEST
from tidelog.errors import InvalidOption
from tidelog.model import TopicPartition
from tidelog.spark.options import BadOption, client_refusal, duration_ms
from tidelog.spark.reading.limits import EdgeLimit, OffsetLimit, TimeLimit
from tidelog.spark.reading.read_options import ReadOptions

GOOD = {"kafka.bootstrap.servers": "h:1", "subscribe": "a, b"}
AT = {TopicPartition("t", 0): 5}


def read(*, streaming=None, **options):
    return ReadOptions.of(
        {**GOOD, **{name.replace("__", "."): text for name, text in options.items()}}, streaming=streaming
    )


def test_names_are_those_of_sparks_connector_in_any_case():
    options = ReadOptions.of({**GOOD, "STARTINGOFFSETS": "Earliest", "maxoffsetspertrigger": " 10 "}, streaming=True)
    assert options.chosen.topics == ("a", "b")
    assert options.starting == EdgeLimit("startingOffsets", EARLIEST)
    assert options.max_offsets == 10


def test_what_is_not_given_is_as_in_sparks_connector():
    batch, stream = read(streaming=False), read(streaming=True)
    assert (batch.starting.edge, batch.ending.edge, stream.starting.edge) == (EARLIEST, LATEST, LATEST)
    assert (batch.fail_on_data_loss, batch.max_delay_ms, batch.tries, batch.retry_ms) == (True, 900_000, 3, 1_000)
    assert batch.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert batch.client.isolation_level == "read_uncommitted"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingOffsets": '{"t":{"0":5}}'}, OffsetLimit("startingOffsets", AT)),
        ({"startingTimestamp": "7"}, TimeLimit("startingTimestamp", None, 7)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5}}'}, TimeLimit("startingOffsetsByTimestamp", AT)),
        (
            {"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "Latest"},
            TimeLimit("startingTimestamp", None, 7, falls_back=True),
        ),
        (
            {"startingTimestamp": "7", "startingOffsetsByTimestamp": "x", "startingOffsets": "y"},
            TimeLimit("startingTimestamp", None, 7),
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "startingOffsets": "earliest"},
            TimeLimit("startingOffsetsByTimestamp", AT),
        ),
    ],
)
def test_one_time_stands_over_times_and_these_over_offsets(options, wanted):
    assert read(**options).starting == wanted


def test_which_partitions_are_meant():
    only = {"kafka.bootstrap.servers": "h:1"}
    assert ReadOptions.of({**only, "assign": '{"t":[0]}'}).chosen.partitions == {TopicPartition("t", 0)}
    pattern = ReadOptions.of({**only, "subscribePattern": "fl.*"}).chosen
    assert [pattern.matches(name) for name in ("flights", "a flight", "__consumer_offsets")] == [True, False, False]


def test_what_kafka_options_say_reaches_the_client():
    client = read(
        kafka__fetch__max__bytes="99", kafka__isolation__level="read_committed", kafka__client__rack="r"
    ).client
    assert (client.fetch_max_bytes, client.isolation_level, client.client_rack) == (99, "read_committed", "r")
    assert read(kafka__group__id="mine").client.client_id == "consumer-mine"
    assert read(groupIdPrefix="ours").client.client_id == "consumer-ours"
    assert read(kafka__receive__buffer__bytes="1", kafka__security__protocol="plaintext").client.client_rack == ""


def test_columns_come_in_the_order_that_is_asked_for():
    assert read(columns="offset, VALUE,timestamptype").columns == ("offset", "value", "timestampType")
    assert read(columns="headers,key", includeHeaders="true").columns == ("headers", "key")
    assert read(includeHeaders="true").columns[-1] == "headers"


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", 900_000), ("2min", 120_000), ("30s", 30_000), ("500", 500), ("7 ms", 7)]
)
def test_times_are_written_as_spark_writes_them(text, ms):
    assert duration_ms("maxTriggerDelay", text) == ms


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": "a"}, r"'kafka.bootstrap.servers' must be given"),
        ({"kafka.bootstrap.servers": "h", "subscribe": "a"}, r"'kafka.bootstrap.servers': 'h' is not HOST:PORT"),
        ({"kafka.bootstrap.servers": "h:1"}, "one of the options assign, subscribe, subscribePattern must be given"),
        ({**GOOD, "assign": '{"a":[0]}'}, "only one of the options .* can be given; there are assign and subscribe"),
        ({"kafka.bootstrap.servers": "h:1", "subscribe": " , "}, "'subscribe' names nothing"),
        ({"kafka.bootstrap.servers": "h:1", "assign": "a"}, r"'assign' is expected as \{\"topicA\":\[0,1\]"),
        ({"kafka.bootstrap.servers": "h:1", "assign": "{}"}, "'assign' assigns no partition"),
        (
            {"kafka.bootstrap.servers": "h:1", "subscribePattern": "["},
            "'subscribePattern' is not a valid regular expression",
        ),
        ({"kafka.bootstrap.servers": "h:1", "subscribePattern": " "}, "'subscribePattern' is an empty pattern"),
        ({**GOOD, "subscribes": "a"}, "unknown option 'subscribes'; there are"),
        ({**GOOD, "maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger' must be an integer of at least 1, not '0'"),
        ({**GOOD, "minPartitions": "many"}, "'minPartitions' must be an integer of at least 1"),
        ({**GOOD, "maxRecordsPerPartition": "-1"}, "'maxRecordsPerPartition' must be an integer of at least 1"),
        ({**GOOD, "maxTriggerDelay": "soon"}, "'maxTriggerDelay' is a time like 15m"),
        ({**GOOD, "startingOffsets": "yesterday"}, "'startingOffsets' is expected as earliest, latest or"),
        ({**GOOD, "startingOffsets": '["t"]'}, "'startingOffsets'"),
        ({**GOOD, "endingOffsets": '{"t":5}'}, "'endingOffsets'"),
        ({**GOOD, "startingTimestamp": "noon"}, "'startingTimestamp' is one time in milliseconds"),
        ({**GOOD, "startingOffsetsByTimestamp": "5"}, "'startingOffsetsByTimestamp' is expected as"),
        (
            {**GOOD, "startingOffsetsByTimestampStrategy": "x"},
            "'startingOffsetsByTimestampStrategy' is error or latest",
        ),
        ({**GOOD, "failOnDataLoss": "perhaps"}, "'failOnDataLoss' must be true or false, not 'perhaps'"),
        ({**GOOD, "columns": "values"}, "'columns': there is no column 'values'; there are key, value"),
        ({**GOOD, "columns": "key,KEY"}, "'columns' names a column twice"),
        ({**GOOD, "columns": "key", "includeHeaders": "true"}, "'includeHeaders' and 'columns' disagree"),
        (
            {**GOOD, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            r"\(9\) is higher than 'maxOffsetsPerTrigger'",
        ),
        ({**GOOD, "commitGroup": " "}, "'commitGroup' is the name of a group"),
        (
            {**GOOD, "kafka.auto.offset.reset": "earliest"},
            "'kafka.auto.offset.reset' is not supported: .*startingOffsets",
        ),
        ({**GOOD, "kafka.key.deserializer": "x"}, "'kafka.key.deserializer' is not supported"),
        ({**GOOD, "kafka.value.deserializer": "x"}, "'kafka.value.deserializer' is not supported"),
        ({**GOOD, "kafka.enable.auto.commit": "true"}, "'kafka.enable.auto.commit' is not supported: .*commitGroup"),
        ({**GOOD, "kafka.interceptor.classes": "x"}, "'kafka.interceptor.classes' is not supported"),
        ({**GOOD, "kafka.fetch.max.bytes": "big"}, "'kafka.fetch.max.bytes' must be an integer, not 'big'"),
        ({**GOOD, "kafka.fetch.maximum": "1"}, "'kafka.fetch.maximum' is not an option of this client"),
        ({**GOOD, "kafka.isolation.level": "some"}, "'kafka.isolation.level' is read_committed or read_uncommitted"),
        ({**GOOD, "kafka.security.protocol": "SASL_SSL"}, "'kafka.sasl.jaas.config' is needed, with username="),
    ],
)
def test_a_wrong_option_names_itself_and_the_remedy(options, told):
    with pytest.raises(BadOption, match=told):
        ReadOptions.of(options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOffsets": "latest"}, "'startingOffsets': a starting offset cannot be latest"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "'startingOffsets': a starting offset cannot be latest"),
        ({"endingOffsets": "earliest"}, "'endingOffsets': an ending offset cannot be earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "'endingOffsets': an ending offset cannot be earliest"),
        (
            {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'},
            "a-0: the start 5 of option 'startingOff",
        ),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"1":9}}'}, "name different partitions"),
        ({"commitGroup": "g"}, "'commitGroup' is for streaming queries"),
    ],
)
def test_what_a_batch_cannot_do(options, told):
    with pytest.raises(BadOption, match=told):
        read(streaming=False, **options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name):
    with pytest.raises(BadOption, match=f"{name!r} is not valid in streaming queries"):
        read(streaming=True, **{name: '{"a":{"0":1}}' if name != "endingTimestamp" else "1"})


def test_what_only_streams_do_is_ignored_in_a_batch_with_a_warning(caplog):
    read(streaming=False, maxOffsetsPerTrigger="5", maxTriggerDelay="1s")
    assert [record.args[0] for record in caplog.records] == ["maxOffsetsPerTrigger", "maxTriggerDelay"]


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("linger.ms must be an integer, not 'x'", "option 'kafka.linger.ms' must be an integer, not 'x'"),
        ("ssl.truststore.location: not readable", "option 'kafka.ssl.truststore.location': not readable"),
    ],
)
def test_a_refusal_of_the_client_names_the_option_as_the_user_gave_it(reason, sentence):
    assert str(client_refusal(InvalidOption(reason))) == sentence
