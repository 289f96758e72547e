"""What producers of three clients see of each fault: the sentences of docs/testing.md, one test for each."""

import time
from contextlib import closing
from threading import Thread

import pytest

from tests.testing.clients import REQUEST_MS, AioKafka, Sent
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:unclosed:ResourceWarning"),  # of the clients
    pytest.mark.usefixtures("clients_sockets_are_collected"),
]


@pytest.fixture
def topic(request, cluster):
    name = request.node.name.translate(str.maketrans("[]", "--"))
    cluster.create_topic(name, min_insync_replicas=2)
    return name


@pytest.fixture
def writer(client, cluster, topic):
    """An idempotent producer that has sent a record. It waits for responses as long as a busy machine needs."""
    writer = client.Writer(cluster.bootstrap, topic, idempotent=True, request_ms=30_000)
    assert writer.send(b"first") == Sent(0)
    yield writer
    writer.close()


@pytest.fixture
def hasty(client, cluster, topic):
    """The same with a request timeout of a second."""
    writer = client.Writer(cluster.bootstrap, topic, idempotent=True)
    assert writer.send(b"first") == Sent(0)
    yield writer
    writer.close()


def assert_next_is_stored_once(cluster, topic, writer):
    assert writer.send(b"next") == Sent(1)
    assert [record.value for record in cluster.records(topic)] == [b"first", b"next"]


def remove_after_a_retry(cluster, fault, api="Produce"):
    """Let the fault end once a client has tried twice."""
    before = len(cluster.requests(api))

    def wait():
        wait_for(lambda: len(cluster.requests(api)) >= before + 2, "a second attempt")
        fault.remove()

    thread = Thread(target=wait)
    thread.start()
    return thread


def test_a_killed_leader_costs_a_retry(cluster, topic, writer):
    cluster.kill(cluster.leader(topic))
    assert_next_is_stored_once(cluster, topic, writer)


def test_a_leader_that_restarts_costs_a_retry(cluster, topic, writer):
    cluster.restart(cluster.leader(topic))
    assert_next_is_stored_once(cluster, topic, writer)


def test_a_paused_leader_costs_request_timeouts(cluster, topic, client):
    """With idempotence aiokafka delivers, too, if it does not look for a leader while none is elected."""
    with closing(client.Writer(cluster.bootstrap, topic, idempotent=client is not AioKafka)) as writer:
        assert writer.send(b"first") == Sent(0)
        cluster.pause(cluster.leader(topic))
        if client is AioKafka:
            assert writer.send(b"given up").error == "RequestTimedOutError"
        else:
            assert_next_is_stored_once(cluster, topic, writer)


def test_a_leader_without_network_is_replaced(cluster, topic, writer):
    leader = cluster.leader(topic)
    cluster.partition({leader}, clients=False)
    assert_next_is_stored_once(cluster, topic, writer)
    assert cluster.leader(topic) != leader


def test_another_leader_costs_a_retry(cluster, topic, writer):
    cluster.elect(topic, leader=(cluster.leader(topic) + 1) % 3)
    assert_next_is_stored_once(cluster, topic, writer)


def test_a_delay_is_added(cluster, topic, writer):
    with cluster.delay("Produce", ms=300) as delay:
        began = time.monotonic()
        assert_next_is_stored_once(cluster, topic, writer)
        assert time.monotonic() - began >= 0.3
    assert delay.struck == 1


def test_a_retriable_error_is_retried(cluster, topic, writer):
    fault = cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert_next_is_stored_once(cluster, topic, writer)
    assert fault.struck == 2


def test_an_error_that_is_not_retriable_is_reported(cluster, topic, client, writer):
    cluster.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    assert (
        writer.send(b"next").error
        == {
            "confluent-kafka": "TOPIC_AUTHORIZATION_FAILED",
            "aiokafka": "TopicAuthorizationFailedError",
            "kafka-python": "TopicAuthorizationFailedError",
        }[client.name]
    )
    assert len(cluster.records(topic)) == 1


def test_an_error_of_one_partition_leaves_the_others(cluster, topic, client):
    cluster.create_topic(f"{topic}-2", partitions=2, min_insync_replicas=2)
    writer = client.Writer(cluster.bootstrap, f"{topic}-2", idempotent=True, request_ms=30_000)
    retried = cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic=f"{topic}-2", partition=0, times=2)
    assert writer.send(b"1", partition=1) == Sent(0)
    assert retried.struck == 0
    assert writer.send(b"0", partition=0) == Sent(0)
    assert retried.struck == 2
    assert writer.send(b"1", partition=1) == Sent(1)
    writer.close()


@pytest.mark.parametrize("applied", [False, True], ids=["request", "response"])
def test_a_lost_request_or_response_costs_its_timeout_and_no_duplicate(cluster, topic, hasty, applied):
    began = time.monotonic()
    fault = cluster.drop("Produce", applied=applied)
    assert_next_is_stored_once(cluster, topic, hasty)
    assert fault.struck == 1
    assert time.monotonic() - began >= REQUEST_MS / 1000


def test_without_idempotence_a_lost_response_makes_a_duplicate_or_an_error(cluster, topic, client):
    writer = client.Writer(cluster.bootstrap, topic)
    cluster.drop("Produce", applied=True)
    sent = writer.send(b"first")
    writer.close()
    copies = len(cluster.records(topic))
    if client is AioKafka:
        assert (sent.error, copies) == ("RequestTimedOutError", 1)
    else:
        assert sent.error == ""
        assert copies >= 2  # more, if the machine is slow


def test_cut_connections_are_opened_again(cluster, topic, writer):
    assert cluster.cut_connections() >= 1
    assert_next_is_stored_once(cluster, topic, writer)


def test_a_slow_link_takes_its_time(cluster, topic, writer):
    with cluster.throttle(50_000):
        began = time.monotonic()
        assert writer.send(bytes(20_000)) == Sent(1)
        assert time.monotonic() - began >= 0.4


def test_a_full_disk_is_retried_until_there_is_room(cluster, topic, writer):
    thread = remove_after_a_retry(cluster, cluster.full_disk(cluster.leader(topic)))
    assert_next_is_stored_once(cluster, topic, writer)
    thread.join()


def test_a_slow_disk_takes_its_time(cluster, topic, writer):
    cluster.slow_disk(cluster.leader(topic), ms=300)
    began = time.monotonic()
    assert_next_is_stored_once(cluster, topic, writer)
    assert time.monotonic() - began >= 0.3


def test_too_few_replicas_in_sync_are_retried(cluster, topic, writer):
    followers = {0, 1, 2} - {cluster.leader(topic)}
    thread = remove_after_a_retry(cluster, cluster.shrink_isr(topic, without=followers))
    assert_next_is_stored_once(cluster, topic, writer)
    thread.join()


def test_a_clock_that_stands_still_stops_no_producer(cluster, topic, writer):
    cluster.stop_clock()
    assert_next_is_stored_once(cluster, topic, writer)


def test_after_a_power_loss_of_all_brokers_acknowledged_records_are_gone(cluster, topic, client, writer):
    cluster.lose_unflushed()
    cluster.start()
    assert cluster.records(topic) == []
    another = client.Writer(cluster.bootstrap, topic)
    assert another.send(b"next") == Sent(0)
    another.close()


def test_flushed_records_survive_a_power_loss(cluster, topic, client):
    cluster.create_topic(f"{topic}-flushed", flush_messages=1)
    writer = client.Writer(cluster.bootstrap, f"{topic}-flushed")
    assert writer.send(b"first") == Sent(0)
    writer.close()
    cluster.lose_unflushed()
    cluster.start()
    assert [record.value for record in cluster.records(f"{topic}-flushed")] == [b"first"]
