"""Options that change while a broker runs have their effect at once, for all brokers and for this one."""

import pytest

from tests.node.one_broker import OneBroker, values
from tidelog.config.broker import BrokerConfig
from tidelog.config.option import Dynamic
from tidelog.errors import ErrorCode
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

ALL, OWN = "brokers/<default>", "brokers/0"


@pytest.fixture
def broker():
    broker = OneBroker()
    broker.lead()
    return broker


def of_topic(name):
    return lambda broker: getattr(broker.partition().config, name)


SEEN = {
    "log.retention.ms": ("5000", of_topic("retention_ms"), 5000),
    "log.retention.bytes": ("77", of_topic("retention_bytes"), 77),
    "log.segment.bytes": ("2000000", lambda broker: broker.partition().log.config.segment_bytes, 2_000_000),
    "log.roll.ms": ("60000", of_topic("segment_ms"), 60_000),
    "log.cleanup.policy": ("compact", of_topic("cleanup_policy"), ["compact"]),
    "message.max.bytes": ("999", of_topic("max_message_bytes"), 999),
    "min.insync.replicas": ("3", of_topic("min_insync_replicas"), 3),
    "compression.type": ("zstd", of_topic("compression_type"), "zstd"),
    "unclean.leader.election.enable": ("true", of_topic("unclean_leader_election_enable"), True),
    "log.flush.interval.messages": ("9", of_topic("flush_messages"), 9),
    "log.cleaner.delete.retention.ms": ("8", of_topic("delete_retention_ms"), 8),
    "log.message.timestamp.type": ("LogAppendTime", of_topic("message_timestamp_type"), "LogAppendTime"),
    "max.connections": ("5", lambda broker: broker.admission.most, 5),
    "max.connections.per.ip": ("4", lambda broker: broker.admission.per_host, 4),
    "max.connections.per.ip.overrides": ("::1:3", lambda broker: broker.admission.overrides, {"::1": 3}),
    "max.connection.creation.rate": ("2", lambda broker: broker.admission.rate, 2),
    "group.consumer.assignment.interval.ms": (
        "7",
        lambda broker: broker.node.broker.group_config("g").consumer_assignment_interval_ms,
        7,
    ),
    "transaction.partition.verification.enable": (
        "false",
        lambda broker: broker.node.broker.config.transaction_partition_verification_enable,
        False,
    ),
}


@pytest.mark.parametrize("entity", [ALL, OWN])
@pytest.mark.parametrize("option", SEEN)
def test_a_changed_option_is_in_force(broker, option, entity):
    text, seen, value = SEEN[option]
    assert BrokerConfig.OPTIONS[option].dynamic is Dynamic.CLUSTER_WIDE
    before = seen(broker) if broker.admission else None
    broker.configure(entity, **{option.replace(".", "_"): text})
    assert seen(broker) == value != before


def test_what_is_taken_back_is_as_before(broker):
    broker.configure(OWN, message_max_bytes=999)
    broker.configure(OWN)
    assert broker.partition().config.max_message_bytes == 1_048_588


def test_the_brokers_own_value_comes_first_and_the_topics_before_it(broker):
    broker.configure(ALL, message_max_bytes=1)
    broker.configure(OWN, message_max_bytes=2)
    assert broker.partition().config.max_message_bytes == 2
    broker.configure("topics/t", max_message_bytes=3)
    assert broker.partition().config.max_message_bytes == 3


def test_a_produce_is_judged_by_the_changed_option(broker):
    broker.configure(ALL, message_max_bytes=100)
    refused = broker.produce(records=values("x" * 200))
    assert broker.produced(refused)[0] == ErrorCode.MESSAGE_TOO_LARGE
    broker.configure(ALL, message_max_bytes=1000)
    assert broker.produced(broker.produce(records=values("x" * 200), acks=1)) == (0, 0)


def test_producers_are_forgotten_after_the_changed_time(broker):
    broker.configure(ALL, producer_id_expiration_ms=1, log_cleaner_backoff_ms=3)
    assert "producer.id.expiration.ms" in broker.node.broker.config.explicit
    assert broker.node.broker.config.log_cleaner_backoff_ms == 3


def test_a_group_has_its_own_options(broker):
    broker.configure("groups/a%2Fb", consumer_session_timeout_ms=50_000)
    config = broker.node.broker.group_config
    assert config("a/b").consumer_session_timeout_ms == 50_000
    assert config("other").consumer_session_timeout_ms == 45_000


def test_levels_of_log_lines_change_at_the_broker_itself(broker):
    def alter(name, logger, level):
        config = AlterableConfig(name=logger, config_operation=0, value=level)
        resource = AlterConfigsResource(resource_type=8, resource_name=name, configs=[config])
        return broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), version=1).responses[0].error_code

    def level():
        resource = DescribeConfigsResource(resource_type=8, resource_name="0", configuration_keys=["partition"])
        (option,) = broker.ask(DescribeConfigsRequest(resources=[resource]), version=4).results[0].configs
        return option.value, option.config_source

    assert level() == ("INFO", 6)
    assert alter("0", "partition", "DEBUG") == 0
    assert (level(), broker.loud) == (("DEBUG", 6), {"partition": "DEBUG"})
    assert alter("1", "partition", "DEBUG") == ErrorCode.INVALID_REQUEST
    assert alter("0", "nothing", "DEBUG") == ErrorCode.INVALID_CONFIG
    assert broker.loud == {"partition": "DEBUG"}


def test_quotas_are_heard_of(broker):
    broker.configure("clients/test", producer_byte_rate=1)
    assert broker.node.broker.quotas.are_set
    broker.configure("ips/<default>", connection_creation_rate=5)
    assert broker.admission.host_rates == {None: 5.0}
    broker.configure("clients/test")
    assert not broker.node.broker.quotas.are_set
