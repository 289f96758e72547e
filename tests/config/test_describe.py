"""DescribeConfigs' values, sources and synonyms, as a real Kafka 4.3.1 answered them for the same settings."""

import pytest

from tidelog.config import describe, option_types
from tidelog.config.broker import BrokerConfig
from tidelog.config.describe import Origin, Source

FILE = {"node.id": "1", "log.retention.hours": "100", "my.own.key": "5", "num.io.threads": "2"}
RUNNING = BrokerConfig(
    FILE,
    cluster={"log.segment.bytes": "3000000"},
    broker={"log.segment.bytes": "2000000", "listener.name.plain.ssl.keystore.password": "secret"},
)


def _only(described):
    (line,) = described
    return line


def _broker(name):
    return _only(describe.describe_broker(RUNNING, [name]))


def test_a_topic_lists_every_public_option_in_order():
    names = [line.name for line in describe.describe_topic({}, RUNNING)]
    assert names == sorted(names)
    assert len(names) == 33
    assert "internal.segment.bytes" not in names
    assert len(describe.describe_topic({"internal.segment.bytes": "1000"}, RUNNING)) == 34


def test_a_topics_own_value_comes_before_the_brokers():
    line = _only(describe.describe_topic({"segment.bytes": " 4000000 "}, RUNNING, ["segment.bytes"]))
    assert (line.value, line.source, line.read_only, line.type) == ("4000000", Source.TOPIC, False, 3)
    assert line.synonyms == [
        Origin("segment.bytes", "4000000", Source.TOPIC),
        Origin("log.segment.bytes", "2000000", Source.DYNAMIC_BROKER),
        Origin("log.segment.bytes", "3000000", Source.DYNAMIC_DEFAULT_BROKER),
        Origin("log.segment.bytes", "1073741824", Source.DEFAULT),
    ]


def test_a_topic_without_its_own_value_names_the_brokers_source():
    line = _only(describe.describe_topic({}, RUNNING, ["segment.bytes"]))
    assert (line.value, line.source) == ("2000000", Source.DYNAMIC_BROKER)


def test_a_value_from_a_coarser_unit_counts_as_a_default():
    line = _only(describe.describe_topic({}, RUNNING, ["retention.ms"]))
    assert (line.value, line.source, line.synonyms) == ("360000000", Source.DEFAULT, [])


def test_a_brokers_twins_are_listed_once_the_finest_is_given():
    config = RUNNING.changed({}, {"log.retention.ms": "1000"})
    line = _only(describe.describe_broker(config, ["log.retention.ms"]))
    assert line.synonyms == [
        Origin("log.retention.ms", "1000", Source.DYNAMIC_BROKER),
        Origin("log.retention.hours", "100", Source.STATIC_BROKER),
        Origin("log.retention.hours", "168", Source.DEFAULT),
    ]
    assert _broker("log.retention.ms").synonyms == []


def test_what_only_the_authorizer_reads_is_unknown_to_the_broker():
    assert "super.users" not in [line.name for line in describe.describe_broker(RUNNING)]
    line = _only(describe.describe_broker(BrokerConfig({"super.users": "User:root"}), ["super.users"]))
    assert (line.value, line.is_sensitive, line.type) == (None, True, 0)
    assert line.synonyms == [Origin("super.users", None, Source.STATIC_BROKER)]


@pytest.mark.parametrize(
    ("name", "value", "source", "read_only"),
    [
        ("node.id", "1", Source.STATIC_BROKER, True),
        ("broker.id", "1", Source.STATIC_BROKER, True),
        ("num.io.threads", "2", Source.STATIC_BROKER, False),
        ("log.dirs", None, Source.DEFAULT, True),
        ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", Source.DEFAULT, False),
    ],
)
def test_a_brokers_options(name, value, source, read_only):
    line = _broker(name)
    assert (line.value, line.source, line.read_only, line.is_sensitive) == (value, source, read_only, False)


def test_what_may_be_a_secret_is_not_shown():
    unknown, password = _broker("my.own.key"), _broker("listener.name.plain.ssl.keystore.password")
    assert (unknown.value, unknown.is_sensitive, unknown.type, unknown.documentation) == (None, True, 0, None)
    assert (password.value, password.is_sensitive, password.type) == (None, True, option_types.PASSWORD.code)
    assert unknown.synonyms == [Origin("my.own.key", None, Source.STATIC_BROKER)]


def test_the_broker_without_a_name_shows_what_is_set_for_all():
    line = _only(describe.describe_cluster(RUNNING))
    assert (line.name, line.value, line.source) == ("log.segment.bytes", "3000000", Source.DYNAMIC_DEFAULT_BROKER)
    assert line.synonyms == [Origin("log.segment.bytes", "3000000", Source.DYNAMIC_DEFAULT_BROKER)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("advertised.listeners", "PLAINTEXT://host:9092"),
        ("listener.name.plain.ssl.keystore.type", "PEM"),
        ("my.own.key", None),
        *(
            (name, option_types.format_value(option.default))
            for name, option in BrokerConfig.OPTIONS.items()
            if option.default
        ),
    ],
)
def test_whatever_the_file_gives_comes_from_the_file(name, value):
    line = _only(describe.describe_broker(BrokerConfig({"node.id": "1", name: value or "x"}), [name]))
    assert line.source == line.synonyms[0].source == Source.STATIC_BROKER
    assert line.value == (None if line.is_sensitive else value)
