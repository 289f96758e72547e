"""Options of topics and brokers, altered through the controller."""

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.controller.commands import configs
from tidelog.errors import ErrorCode
from tidelog.wire.messages.configs import alter_configs, incremental_alter_configs
from tidelog.wire.messages.configs.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest

SET, DELETE, APPEND = 0, 1, 2
TOPIC, BROKER = configs.TOPIC, configs.BROKER


@pytest.fixture
def cluster():
    cluster = FakeCluster().start()
    cluster.create("t", assignments={0: (1, 2)}, configs={"retention.ms": "1000"})
    return cluster


def alter(cluster, *resources, **flags):
    wanted = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                incremental_alter_configs.AlterableConfig(name=option, config_operation=operation, value=value)
                for option, operation, value in changes
            ],
        )
        for kind, name, *changes in resources
    ]
    responses = cluster.ask(IncrementalAlterConfigsRequest(resources=wanted, **flags)).responses
    return [response.error_code for response in responses]


def stored(cluster, path):
    node = cluster.tree.nodes.get(f"/config/{path}")
    return node and tree.parse_config(node.data)


def test_a_topics_options_change_one_by_one(cluster):
    assert alter(cluster, (TOPIC, "t", ("segment.bytes", SET, "2000000"), ("cleanup.policy", APPEND, "compact"))) == [0]
    assert stored(cluster, "topics/t") == {
        "retention.ms": "1000",
        "segment.bytes": "2000000",
        "cleanup.policy": "delete,compact",
    }
    (told,) = cluster.kinds("config.changed")
    assert (told["entity"], told["options"]) == ("topics/t", ["cleanup.policy", "segment.bytes"])
    assert alter(cluster, (TOPIC, "t", ("retention.ms", DELETE, None))) == [0]
    assert "retention.ms" not in stored(cluster, "topics/t")


def test_alter_configs_replaces(cluster):
    alter(cluster, (TOPIC, "t", ("retention.ms", SET, "5")))
    config = alter_configs.AlterableConfig(name="segment.bytes", value="3000000")
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])
    (response,) = cluster.ask(AlterConfigsRequest(resources=[resource])).responses
    assert (response.error_code, response.resource_name) == (0, "t")
    assert stored(cluster, "topics/t") == {"segment.bytes": "3000000"}


def test_a_change_is_announced_by_a_notification(cluster):
    alter(cluster, (TOPIC, "t", ("retention.ms", SET, "5")))
    (name,) = cluster.tree.children(tree.CONFIG_CHANGES)
    assert tree.parse_config_change(cluster.tree.nodes[f"{tree.CONFIG_CHANGES}/{name}"].data) == "topics/t"


def test_notifications_do_not_pile_up(cluster, monkeypatch):
    monkeypatch.setattr(configs, "NOTIFICATIONS", 3)
    for value in range(10):
        assert alter(cluster, (TOPIC, "t", ("retention.ms", SET, str(value)))) == [0]
    assert len(cluster.tree.children(tree.CONFIG_CHANGES)) == 3
    cluster.brokers[0].kill()
    cluster.settle()
    assert alter(cluster, (TOPIC, "t", ("retention.ms", SET, "77"))) == [0]
    assert len(cluster.tree.children(tree.CONFIG_CHANGES)) == 3


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ((TOPIC, "u", ("retention.ms", SET, "1")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "t", ("retention.ms", SET, "soon")), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "t", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "t", ("retention.ms", 9, "1")), ErrorCode.UNKNOWN_SERVER_ERROR),
        ((BROKER, "one", ("log.retention.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
        ((3, "t", ("retention.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "u", ("retention.ms", SET, "soon")), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "", ("retention.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals(cluster, resource, code):
    before = dict(cluster.tree.nodes)
    assert alter(cluster, resource, (TOPIC, "t", ("segment.ms", SET, "600000"))) == (
        [code, 0] if resource[:2] != (TOPIC, "t") else [ErrorCode.INVALID_REQUEST] * 2
    )
    if resource[:2] == (TOPIC, "t"):
        assert cluster.tree.nodes == before
        assert alter(cluster, resource) == [code]
        assert cluster.tree.nodes == before


def test_validate_only_changes_nothing(cluster):
    before = dict(cluster.tree.nodes)
    assert alter(cluster, (TOPIC, "t", ("retention.ms", SET, "9")), validate_only=True) == [0]
    assert cluster.tree.nodes == before


def test_broker_options_stand_by_broker_and_for_all(cluster):
    assert alter(cluster, (BROKER, "1", ("log.cleaner.threads", SET, "2"))) == [0]
    assert alter(cluster, (BROKER, "", ("log.retention.ms", SET, "60000"))) == [0]
    assert stored(cluster, "brokers/1") == {"log.cleaner.threads": "2"}
    assert stored(cluster, "brokers/<default>") == {"log.retention.ms": "60000"}
    assert cluster.leader.controller.active.term.topic_config("other").retention_ms == 60000


def test_allowing_unclean_elections_elects_at_once(cluster):
    cluster.ghost.unclean_allowed = True
    for id_ in (2, 1):
        cluster.brokers[id_].kill()
        cluster.settle()
    cluster.brokers[2].start()
    cluster.settle()
    assert cluster.partition("t").state.leader == -1
    assert alter(cluster, (TOPIC, "t", ("unclean.leader.election.enable", SET, "true"))) == [0]
    assert cluster.partition("t").state.leader == 2


def test_an_unknown_outcome_keeps_versions_right(cluster):
    cluster.outcomes.append("answer lost")
    assert alter(cluster, (TOPIC, "t", ("retention.ms", SET, "7"))) == [0]
    cluster.outcomes.append("lost")
    assert alter(cluster, (TOPIC, "t", ("retention.ms", SET, "8"))) == [0]
    assert alter(cluster, (TOPIC, "t", ("retention.ms", SET, "9"))) == [0]
    assert stored(cluster, "topics/t")["retention.ms"] == "9"
    assert len(cluster.kinds("controller.loaded")) == 1


def test_another_controller_knows_all_options(cluster):
    alter(cluster, (TOPIC, "t", ("retention.ms", SET, "7")))
    cluster.brokers[0].kill()
    cluster.settle()
    assert alter(cluster, (TOPIC, "t", ("segment.ms", SET, "600000"))) == [0]
    assert stored(cluster, "topics/t") == {"retention.ms": "7", "segment.ms": "600000"}
