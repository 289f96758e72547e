"""What consumers of three clients see of each fault: the sentences of docs/testing.md, one test for each."""

import pytest

from tests.testing.clients import GROUP_CLIENTS
from tests.waiting import wait_for
from tidelog.shell.transport import Producer
from tidelog.wire.messages.groups.classic_group import HeartbeatResponse

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:unclosed:ResourceWarning"),  # of the clients
    pytest.mark.usefixtures("clients_sockets_are_collected"),
]


@pytest.fixture
def topic(request, cluster):
    name = request.node.name.translate(str.maketrans("[]", "--"))
    cluster.create_topic(name)
    return name


@pytest.fixture
def send(cluster, topic):
    def send(*values):
        with Producer(cluster.bootstrap, linger_ms=0) as producer:
            for value in values:
                producer.send(topic, value)
            assert all(delivery.is_acknowledged for delivery in producer.flush(60))

    return send


@pytest.fixture
def reader(client, cluster, topic, send):
    """A consumer that has read a record; a member of a group, where the client can be one."""
    send(b"first")
    reader = client.Reader(cluster.bootstrap, topic, group=topic, session_ms=6000)
    assert reader.take(1) == [b"first"]
    yield reader
    reader.close()


def assert_reads_on(reader, send):
    send(b"next")
    assert reader.take(1) == [b"next"]


def test_a_killed_leader_is_replaced_and_read_on_from(cluster, topic, reader, send):
    cluster.kill(cluster.leader(topic))
    assert_reads_on(reader, send)


def test_a_lost_fetch_costs_its_timeout(cluster, topic, client, send):
    reader = client.Reader(cluster.bootstrap, topic, group=topic, request_ms=3000)
    send(b"first")
    assert reader.take(1) == [b"first"]
    fault = cluster.drop("Fetch")
    assert_reads_on(reader, send)  # perhaps by the fetch that was under way
    send(b"more")
    assert reader.take(1) == [b"more"]
    assert fault.struck == 1
    reader.close()


def test_cut_connections_are_opened_again(cluster, reader, send):
    assert cluster.cut_connections() >= 1
    assert_reads_on(reader, send)


def test_an_offset_out_of_range_resets_the_position(cluster, reader, send):
    """auto.offset.reset=earliest: what was read is read again."""
    cluster.fail("Fetch", "OFFSET_OUT_OF_RANGE")
    send(b"next")
    while reader.take(1) != [b"first"]:
        """The fetch that was under way has returned the next one."""
    assert reader.take(1) == [b"next"]


def test_an_error_of_one_partition_leaves_the_others(cluster, topic, client):
    cluster.create_topic(f"{topic}-2", partitions=2)
    fault = cluster.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic=f"{topic}-2", partition=0, times=None)
    with Producer(cluster.bootstrap, linger_ms=0) as producer:
        for partition in (0, 1):
            producer.send(f"{topic}-2", f"of {partition}".encode(), partition=partition)
        producer.flush(60)
    reader = client.Reader(cluster.bootstrap, f"{topic}-2", group=topic, partitions=2)
    assert reader.take(1) == [b"of 1"]
    wait_for(lambda: fault.struck, "a fetch of partition 0")
    fault.remove()
    assert reader.take(1) == [b"of 0"]
    reader.close()


@pytest.mark.parametrize("client", GROUP_CLIENTS, indirect=True, ids=lambda client: client.name)
def test_a_rebalance_that_is_ordered_makes_members_join_again(cluster, reader, send):
    joins = len(cluster.requests("JoinGroup"))
    code = 27  # REBALANCE_IN_PROGRESS
    fault = cluster.control("Heartbeat", lambda request: HeartbeatResponse(error_code=code), times=1)
    send(b"next")
    assert reader.take(1) == [b"next"]
    for _ in range(200):  # clients heartbeat and join while they are polled
        if len(cluster.requests("JoinGroup")) > joins:
            break
        send(b"more")
        reader.take(1)
    assert fault.struck == 1
    assert len(cluster.requests("JoinGroup")) > joins


@pytest.mark.parametrize("client", GROUP_CLIENTS, indirect=True, ids=lambda client: client.name)
def test_members_whose_session_has_expired_join_again(cluster, reader, send):
    joins = len(cluster.requests("JoinGroup"))
    cluster.advance_clock(hours=1)
    send(b"next")
    assert reader.take(1) == [b"next"]
    wait_for(lambda: send(b"more") or (reader.take(1) and len(cluster.requests("JoinGroup")) > joins), "a new member")
    reader.commit()


def test_records_beyond_their_retention_are_gone(cluster, topic, client, reader, send):
    cluster.advance_clock(days=8)
    cluster.wait_for(lambda: not cluster.records(topic))
    send(b"next")
    another = client.Reader(cluster.bootstrap, topic, group=f"{topic}-another")
    assert another.take(1) == [b"next"]
    another.close()


def test_a_clock_that_stands_still_stops_no_records(cluster, reader, send):
    cluster.stop_clock()
    assert_reads_on(reader, send)
    cluster.advance_clock(seconds=1)
    send(b"more")
    assert reader.take(1) == [b"more"]


@pytest.mark.parametrize("client", GROUP_CLIENTS, indirect=True, ids=lambda client: client.name)
def test_the_lag_of_a_group(cluster, topic, reader, send):
    reader.commit()
    assert cluster.lag(topic) == 0
    send(b"2", b"3")
    assert cluster.lag(topic) == 2
    assert reader.take(2) == [b"2", b"3"]
    reader.commit()
    cluster.wait_for(cluster.lag(topic) == 0)
    assert cluster.lag("nobody").value is None
