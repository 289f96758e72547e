"""Client quotas, altered through the controller and written where Kafka had them."""

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.errors import ErrorCode
from tidelog.ports import Create
from tidelog.wire.messages.cluster.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)

INVALID = ErrorCode.INVALID_REQUEST
RATE = "producer_byte_rate"


@pytest.fixture
def cluster():
    return FakeCluster().start()


def entry(entity, **values):
    ops = [OpData(key=name, value=value or 0.0, remove=value is None) for name, value in values.items()]
    return EntryData(entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()], ops=ops)


def alter(cluster, *entries, **flags):
    answers = cluster.ask(AlterClientQuotasRequest(entries=list(entries), **flags)).entries
    return [answer.error_code for answer in answers]


def stored(cluster, place):
    node = cluster.tree.nodes.get(f"/config/{place}")
    return node and tree.parse_config(node.data)


def test_quotas_are_set_changed_and_removed(cluster):
    client = {"client-id": "c"}
    assert alter(cluster, entry(client, producer_byte_rate=1024.0, request_percentage=12.5)) == [0]
    assert stored(cluster, "clients/c") == {RATE: "1024", "request_percentage": "12.5"}
    assert alter(cluster, entry(client, producer_byte_rate=2048.0, request_percentage=None)) == [0]
    assert stored(cluster, "clients/c") == {RATE: "2048"}
    assert alter(cluster, entry(client, consumer_byte_rate=None)) == [0]


def test_a_users_clients_stand_below_the_user(cluster):
    pair, user = {"user": "u", "client-id": "c"}, {"user": "u"}
    other = {"user": "u", "client-id": None}
    wished = (
        entry(pair, producer_byte_rate=1.0),
        entry(user, producer_byte_rate=2.0),
        entry(other, producer_byte_rate=3.0),
    )
    assert alter(cluster, *wished) == [0, 0, 0]
    assert stored(cluster, "users/u/clients/c") == {RATE: "1"}
    assert stored(cluster, "users/u") == {RATE: "2"}
    assert stored(cluster, "users/u/clients/<default>") == {RATE: "3"}
    assert alter(cluster, entry(user, producer_byte_rate=4.0), entry(pair, producer_byte_rate=None)) == [0, 0]
    assert (stored(cluster, "users/u"), stored(cluster, "users/u/clients/c")) == ({RATE: "4"}, {})


def test_the_next_controller_knows_them(cluster):
    alter(cluster, entry({"user": "u", "client-id": "c"}, producer_byte_rate=1.0))
    cluster.brokers[0].kill()
    cluster.settle()
    alter(cluster, entry({"user": "u", "client-id": "c"}, consumer_byte_rate=2.0))
    assert stored(cluster, "users/u/clients/c") == {RATE: "1", "consumer_byte_rate": "2"}


def test_a_place_for_clients_without_any_is_used(cluster):
    """As Kafka 3 on ZooKeeper leaves it if it dies between two writes."""
    cluster.by_hand(Create("/config/users/u", b""), Create("/config/users/u/clients", b""))
    cluster.brokers[0].kill()
    cluster.settle()
    assert alter(cluster, entry({"user": "u", "client-id": "c"}, producer_byte_rate=1.0)) == [0]
    assert stored(cluster, "users/u/clients/c") == {RATE: "1"}


def test_the_versions_known_are_those_of_the_store(cluster):
    client = {"client-id": "c"}
    for rate in (1.0, 2.0, 3.0):
        alter(cluster, entry(client, producer_byte_rate=rate))
        assert cluster.state.config_versions["clients/c"] == cluster.tree.nodes["/config/clients/c"].version


def test_what_is_refused_changes_nothing(cluster):
    bad = (
        entry({}, producer_byte_rate=1.0),
        entry({"user": ""}, producer_byte_rate=1.0),
        entry({"ip": "1.2.3.4"}, producer_byte_rate=1.0),
        entry({"user": "u"}, connection_creation_rate=1.0),
        entry({"client-id": "c"}, producer_byte_rate=-1.0),
        entry({"client-id": "d"}, producer_byte_rate=1.5),
    )
    before = dict(cluster.tree.nodes)
    assert alter(cluster, *bad) == [INVALID] * len(bad)
    twice = entry({"client-id": "c"}, producer_byte_rate=1.0)
    assert alter(cluster, twice, twice) == [INVALID]
    assert alter(cluster, entry({"client-id": "c"}, producer_byte_rate=1.0), validate_only=True) == [0]
    assert {path for path in cluster.tree.nodes if path.startswith("/config")} == {
        path for path in before if path.startswith("/config")
    }


def test_one_that_is_refused_keeps_no_other_from_changing(cluster):
    wished = (entry({"client-id": "c"}, nonsense=1.0), entry({"client-id": "d"}, producer_byte_rate=1.0))
    assert alter(cluster, *wished) == [INVALID, 0]
    assert stored(cluster, "clients/d") == {RATE: "1"}
