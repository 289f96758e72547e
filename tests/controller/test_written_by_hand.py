"""What an operator wrote into the tree and is not of Kafka's form: it counts as not there, and stops nobody."""

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.controller.config_values import read_values
from tidelog.ports import Create, Delete, Write

NONSENSE = [b"", b"hello", b"{", b"[]", b"7", b'"x"', b'{"config":[1]}', b'{"config":7}', b"\xff\xfe"]


@pytest.fixture
def cluster():
    return FakeCluster().start()


@pytest.mark.parametrize("content", NONSENSE)
def test_values_of_another_form_are_none(content):
    assert read_values("topics/t", content) == {}


def test_a_value_that_its_option_forbids_counts_as_not_given_and_an_unknown_name_is_kept():
    written = {"retention.ms": "abc", "min.insync.replicas": "2", "cleanup.policy": "nonsense", "mine": "x"}
    assert read_values("topics/t", tree.format_config(written)) == {"min.insync.replicas": "2", "mine": "x"}
    own = {"listener.name.a.ssl.keystore.type": "JKS", "message.max.bytes": "-7", "log.retention.ms": "5"}
    kept = {"listener.name.a.ssl.keystore.type": "JKS", "log.retention.ms": "5"}
    assert read_values("brokers/0", tree.format_config(own)) == kept
    assert read_values("users/u", tree.format_config({"producer_byte_rate": "5"})) == {"producer_byte_rate": "5"}
    assert read_values("topics/t", b'{"config":{"retention.ms":5}}') == {}


def test_only_what_is_named_as_a_notification_is_one():
    names = ["config_change_0000000012", "oops", "config_change_", "config_change_x", "config_change_3", "x_7"]
    assert tree.change_numbers(names) == [3, 12]
    assert [tree.parse_config_change(content) for content in (b"", b"[]", b"{}")] == [None, None, None]


@pytest.mark.parametrize("content", NONSENSE)
def test_a_controller_reads_the_rest(cluster, content):
    cluster.create("t", 2, 3)
    cluster.by_hand(
        Create("/brokers/topics/odd", content),
        Create("/brokers/ids/9", content),
        Create("/brokers/ids/nobody", content),
        Create("/config/topics/other", content),
        Create("/config/changes/oops", content),
        Create("/log_dir_event_notification/x", content),
        Create("/brokers/topics/t/partitions/oops", content),
        Delete(tree.CONTROLLER),
    )
    assert cluster.leader.controller.epoch == 2
    assert list(cluster.state.topics) == ["t"]
    assert sorted(cluster.state.brokers) == [0, 1, 2]
    assert cluster.kinds("topic.unreadable")[0]["topic"] == "odd"
    cluster.by_hand(Write("/config/topics/t", content))
    assert cluster.create("u", 2, 3).error_code == 0
