"""Options of groups: what stands behind them, and their bounds."""

import pytest

from tidelog.config import describe
from tidelog.config.alter import Change, Operation, alter_group
from tidelog.config.broker import BrokerConfig
from tidelog.config.describe import Origin, Source
from tidelog.config.group import GroupConfig
from tidelog.errors import ApiError, ErrorCode

BROKER = BrokerConfig({"node.id": "1", "group.consumer.session.timeout.ms": "50000"})
SESSION = "consumer.session.timeout.ms"


def change(name, value, current=None):
    return alter_group(current or {}, [Change(name, Operation.SET, value)], BROKER)


def test_an_option_is_the_groups_own_or_the_brokers():
    assert GroupConfig({}, BROKER).consumer_session_timeout_ms == 50_000
    assert GroupConfig({SESSION: "46000"}, BROKER).consumer_session_timeout_ms == 46_000
    assert GroupConfig({}, BROKER).consumer_heartbeat_interval_ms == 5000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SESSION, "44999"),
        (SESSION, "60001"),
        (SESSION, "soon"),
        ("consumer.heartbeat.interval.ms", "4999"),
        ("share.delivery.count.limit", "11"),
        ("share.auto.offset.reset", "never"),
        ("streams.num.standby.replicas", "3"),
        ("retention.ms", "1"),
    ],
)
def test_what_is_out_of_bounds_is_refused(name, value):
    with pytest.raises(ApiError) as refused:
        change(name, value)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_options_are_set():
    assert change(SESSION, "46000") == {SESSION: "46000"}
    assert change("share.auto.offset.reset", "by_duration:PT1H", {SESSION: "46000"}).keys() == {
        SESSION,
        "share.auto.offset.reset",
    }
    assert change("streams.num.standby.replicas", "1") == {"streams.num.standby.replicas": "1"}


def test_a_heartbeat_must_come_within_the_session():
    broker = BrokerConfig({"node.id": "1", "group.consumer.max.heartbeat.interval.ms": "90000"})
    with pytest.raises(ApiError):
        alter_group({}, [Change("consumer.heartbeat.interval.ms", Operation.SET, "45000")], broker)


def test_all_are_described_with_their_sources():
    described = {each.name: each for each in describe.describe_group({SESSION: "46000"}, BROKER)}
    assert len(described) == 17
    assert described[SESSION].synonyms == [
        Origin(SESSION, "46000", Source.GROUP),
        Origin("group.consumer.session.timeout.ms", "50000", Source.STATIC_BROKER),
        Origin("group.consumer.session.timeout.ms", "45000", Source.DEFAULT),
    ]
    reset = described["share.auto.offset.reset"]
    assert (reset.source, reset.synonyms) == (
        Source.DEFAULT,
        [Origin("share.auto.offset.reset", "latest", Source.DEFAULT)],
    )
