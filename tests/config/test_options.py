"""Options as a user meets them: values given as text, read typed, refused with a sentence that says what would do."""

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.config.option_types import format_value
from tidelog.config.topic import TopicConfig
from tidelog.errors import InvalidOption

NO_BROKER_OPTIONS = BrokerConfig({})


def test_an_option_is_named_after_its_attribute():
    assert BrokerConfig.replica_lag_time_max_ms.name == "replica.lag.time.max.ms"
    assert BrokerConfig.OPTIONS["replica.lag.time.max.ms"] is BrokerConfig.replica_lag_time_max_ms


def test_every_option_has_a_sentence_and_a_default_within_its_bounds():
    required = {"node.id"}  # its default, -1, says that nothing was given
    for option in [*BrokerConfig.OPTIONS.values(), *TopicConfig.OPTIONS.values()]:
        assert option.doc.endswith("."), option
        if option.default is not None and option.name not in required:
            assert option.checked(format_value(option.default)) == option.default


def test_values_are_typed_and_read_once():
    config = BrokerConfig(
        {"log.cleaner.min.cleanable.ratio": "0.25", "auto.create.topics.enable": "FALSE", "log.dirs": " /a , /b"}
    )
    assert config.log_cleaner_min_cleanable_ratio == 0.25
    assert config.auto_create_topics_enable is False
    assert config.log_dirs == ["/a", "/b"]
    assert config.log_dirs is config.log_dirs
    assert config.num_partitions == 1


def test_a_topic_falls_back_to_the_broker_and_then_to_the_default():
    broker = BrokerConfig({"log.segment.bytes": "2000000", "min.insync.replicas": "2"})
    topic = TopicConfig({"segment.bytes": "3000000"}, broker)
    assert (topic.segment_bytes, topic.min_insync_replicas, topic.flush_messages) == (3_000_000, 2, (1 << 63) - 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-5"}, -1),
    ],
)
def test_the_finest_unit_of_a_time_wins(given, expected):
    assert TopicConfig({}, BrokerConfig(given)).retention_ms == expected


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"min.insync.replicas": "0"}, "min.insync.replicas must be at least 1, not '0'"),
        ({"min.cleanable.dirty.ratio": "1.5"}, "min.cleanable.dirty.ratio must be between 0 and 1, not '1.5'"),
        ({"compression.gzip.level": "0"}, "compression.gzip.level must be between 1 and 9, or -1, not '0'"),
        ({"cleanup.policy": "compact,forget"}, "cleanup.policy must be one of compact, delete, not 'compact,forget'"),
        ({"retention.ms": "soon"}, "retention.ms must be a 64-bit integer of at least -1, not 'soon'"),
        ({"retention.bytes": "1_000"}, "retention.bytes must be a 64-bit integer, not '1_000'"),
        (
            {"segment.bytes": "2147483648"},
            "segment.bytes must be a 32-bit integer of at least 1048576, not '2147483648'",
        ),
        ({"preallocate": "yes"}, "preallocate must be true or false, not 'yes'"),
        ({"retention.mss": "1"}, "retention.mss is not an option of a topic"),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "2"},
            "min.compaction.lag.ms must be at most max.compaction.lag.ms (2), not 5",
        ),
        (
            {"leader.replication.throttled.replicas": "0-1"},
            "leader.replication.throttled.replicas must be '*', 'none' or pairs partition:broker separated by commas, not '0-1'",
        ),
    ],
)
def test_a_wrong_topic_option_is_named_with_its_bounds_and_value(given, sentence):
    with pytest.raises(InvalidOption) as error:
        TopicConfig.validate(given)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"node.id": "1", "broker.id": "2"}, "node.id and broker.id must be the same, not 1 and 2"),
        (
            {"authorizer.class.name": "a.B"},
            "authorizer.class.name must be empty or org.apache.kafka.metadata.authorizer.StandardAuthorizer, not 'a.B'",
        ),
        (
            {"security.inter.broker.protocol": "TLS"},
            "security.inter.broker.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'",
        ),
        ({"node.id": "-2"}, "node.id must be at least 0, not '-2'"),
        (
            {"replica.fetch.wait.max.ms": "40000"},
            "replica.fetch.wait.max.ms must be at most replica.socket.timeout.ms (30000), not 40000",
        ),
        (
            {"listener.name.x.ssl.client.auth": "maybe"},
            "ssl.client.auth must be one of required, requested, none, not 'maybe'",
        ),
    ],
)
def test_a_wrong_broker_option_is_named_with_its_bounds_and_value(given, sentence):
    with pytest.raises(InvalidOption) as error:
        BrokerConfig.validate(given)
    assert str(error.value) == sentence


def test_a_sensitive_value_is_not_repeated():
    option = BrokerConfig.OPTIONS["ssl.key.password"]
    assert option.is_sensitive
    assert "secret" not in repr(option)


def test_broker_id_and_node_id_say_the_same():
    assert BrokerConfig({"broker.id": "4"}).node_id == 4
    assert BrokerConfig({"node.id": "5"}).broker_id == 5


def test_dynamic_options_go_over_the_file_and_those_of_one_broker_over_all():
    config = BrokerConfig({"message.max.bytes": "1", "background.threads": "1"})
    changed = config.changed({"message.max.bytes": "2", "num.io.threads": "9"}, {"message.max.bytes": "3"})
    assert (config.message_max_bytes, changed.message_max_bytes) == (1, 3)
    assert (changed.num_io_threads, changed.background_threads) == (9, 1)


def test_unknown_and_ignored_names_are_reported():
    given = {
        "process.roles": "broker",
        "zookeeper.x": "1",
        "listener.name.a.ssl.protocol": "TLSv1.3",
        "num.partitions": "1",
    }
    assert BrokerConfig.unknown(given) == ["zookeeper.x"]
    assert BrokerConfig.ignored(given) == ["process.roles"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (0.5, "0.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (["a", "b"], "a,b"),
        (None, None),
        (7, "7"),
    ],
)
def test_values_are_shown_as_kafka_shows_them(value, text):
    assert format_value(value) == text
