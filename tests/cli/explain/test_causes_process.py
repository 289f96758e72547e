"""`tidelog explain` on brokers that run: causes of findings that once rested on hand-made evidence alone.

Each is caused as it happens: a network that is cut one way, a follower that stands still, a bit that turned in what a
coordinator reads, a member that does not come back to a rebalance, records that were deleted under a group.
"""

import json
import threading
import time

import pytest

from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.model import GROUP_TOPIC, TopicPartition
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Admin, Consumer, Producer
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)


@pytest.fixture(scope="module")
def three():
    """Sessions are long, so that nobody replaces a broker that stands still."""
    with Cluster(brokers=3, broker_session_timeout_ms=120_000, auto_leader_rebalance_enable=False) as started:
        yield started


@pytest.fixture
def explain(capsys):
    """The finding of a command that has this kind, as soon as there is one; with `absent` once there is none."""

    def call(cluster, kind, *words, absent=False):
        def result():
            capsys.readouterr()
            options = ["--bootstrap-server", cluster.bootstrap, "--watch-ms", "20", "--patience-ms", "0", "--json"]
            code = run(["explain", *words, *options])
            printed = capsys.readouterr()
            assert code in (0, 2, 3), printed.err  # 3: a machine that is too busy to answer is asked again
            found = {each["kind"]: each for each in json.loads(printed.out)["findings"]}
            if absent:
                return code == 0 and kind not in found
            return found.get(kind)

        return wait_for(result, f"explain {' '.join(words)}: {kind}{' to end' if absent else ''}")

    return call


def send(cluster, topic, *values, **options):
    with Producer(cluster.bootstrap, **options) as producer:
        for value in values:
            producer.send(topic, value)
        assert all(each.is_acknowledged for each in producer.flush(60))


def elect(cluster, name, leader):
    """As `Cluster.elect`, which waits until every broker knows it."""
    order = [leader, *(each.id for each in cluster.brokers if each.id != leader)]
    moved = ReassignablePartition(partition_index=name.partition, replicas=order)
    topics = [ReassignableTopic(name=name.topic, partitions=[moved])]
    chosen = [TopicPartitions(topic=name.topic, partitions=[name.partition])]
    with Admin(cluster.brokers[leader].address) as admin:
        admin.ask(AlterPartitionReassignmentsRequest(topics=topics))
        admin.ask(ElectLeadersRequest(election_type=0, topic_partitions=chosen))


def controller_of(cluster):
    return next(each.id for each in cluster.brokers if each.call(lambda hosted: hosted.node.broker.controller.leading))


def test_a_broker_that_the_controller_cannot_reach_shows_an_old_leader(three, explain):
    """It keeps its session, so it stays registered: only the controller's pushes do not arrive."""
    three.create_topic("old-view", 6)
    controller = controller_of(three)
    cut = next(each.id for each in three.brokers if each.id != controller)
    third = next(each.id for each in three.brokers if each.id not in (controller, cut))
    partition = next(number for number in range(6) if three.leader("old-view", number) == third)
    three.brokers[controller].set_unreachable([cut], store=True, clients=True)
    try:
        elect(three, TopicPartition("old-view", partition), controller)
        finding = explain(three, "partition.epochs-disagree", "partition", f"old-view-{partition}")
        assert f"Broker {cut} shows" in finding["says"]
        assert f"Broker {cut} shows epoch 0, with leader {third}." in finding["because"]
    finally:
        three.brokers[controller].set_unreachable([], store=True, clients=True)
    explain(three, "partition.epochs-disagree", "partition", f"old-view-{partition}", absent=True)


def test_a_follower_that_stands_still_is_in_sync_and_silent(three, explain):
    three.create_topic("silent")
    follower = next(each for each in (0, 1, 2) if each != three.leader("silent"))
    three.pause(follower)
    try:
        finding = explain(three, "partition.member-silent", "partition", "silent-0")
        assert f"Broker {follower} counts as in sync, but cannot follow" in finding["says"]
        assert finding["helps"] == [f"Start broker {follower}, or restart it if it hangs."]
    finally:
        three.resume(follower)
    explain(three, "partition.member-silent", "partition", "silent-0", absent=True)


def test_a_leader_that_answers_with_an_error(three, explain):
    three.create_topic("refusing")
    with three.fail("ListOffsets", "UNKNOWN_SERVER_ERROR", times=None):
        finding = explain(three, "partition.leader-refuses", "partition", "refusing-0")
        assert "answers UNKNOWN_SERVER_ERROR" in finding["says"]
    explain(three, "partition.leader-refuses", "partition", "refusing-0", absent=True)


def test_a_disk_that_fills(three, explain, monkeypatch):
    disk = three.brokers[1].call(lambda hosted: hosted.node.replicas._disk)
    usage = type(disk).usage
    monkeypatch.setattr(type(disk), "usage", lambda self, at: (10**9, 10**7) if self is disk else usage(self, at))
    finding = explain(three, "broker.disk-fills", "broker", "1")
    assert "10.0 MB of 1.0 GB are free" in finding["says"]


def test_records_that_were_deleted_under_a_group(three, explain, tmp_path):
    three.create_topic("deleted")
    send(three, "deleted", b"1", b"2", b"3")
    with Consumer(three.bootstrap, "late", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.subscribe(["deleted"])
        wait_for(lambda: consumer.poll(0.2, 1), "a record")
        consumer.commit()
    place = ["--bootstrap-server", three.bootstrap]
    offsets = tmp_path / "offsets.json"
    offsets.write_text('{"version": 1, "partitions": [{"topic": "deleted", "partition": 0, "offset": 3}]}')
    assert run(["delete-records", *place, "--offset-json-file", str(offsets)]) == 0
    finding = explain(three, "group.out-of-range", "group", "late")
    assert "is out of range; the log has 3 to 3" in finding["says"]
    assert run(finding["helps"][0].partition("tidelog ")[2].split()) == 0, "the advised command ends it"
    explain(three, "group.out-of-range", "group", "late", absent=True)


def test_a_member_that_does_not_come_back_to_a_rebalance(three, explain):
    three.create_topic("rebalancing", 2)
    send(three, "rebalancing", b"1")
    over = threading.Event()

    def join():
        with Consumer(three.bootstrap, "waits", client_id="second") as second:
            second.subscribe(["rebalancing"])
            while not over.is_set():
                second.poll(0.1)

    with Consumer(three.bootstrap, "waits", auto_offset_reset="earliest", client_id="first") as first:
        first.subscribe(["rebalancing"])
        wait_for(lambda: first.poll(0.2), "the first member's record")
        thread = threading.Thread(target=join)
        thread.start()
        try:
            finding = explain(three, "group.rebalancing", "group", "waits")
            assert any("Member first" in each for each in finding["because"])
        finally:
            over.set()
    thread.join()


def test_a_transaction_that_has_been_open_for_long(three, explain):
    three.create_topic("long")
    with TransactionalProducer(three.bootstrap, transactional_id="app", transaction_timeout_ms=600_000) as sender:
        sender.begin()
        sender.send("long", b"1", timestamp=int((time.time() - 120) * 1000))
        sender.flush()
        finding = explain(three, "partition.long-transaction", "partition", "long-0")
        assert "The transaction of app blocks read_committed consumers." in finding["says"]
        sender.abort()
    explain(three, "partition.long-transaction", "partition", "long-0", absent=True)


def test_a_coordinator_whose_log_has_a_bit_that_turned(explain, capsys):
    with Cluster(brokers=1, options={"offsets.topic.num.partitions": "1"}) as one:
        one.create_topic("t")
        send(one, "t", b"1")
        with Consumer(one.bootstrap, "readers", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            wait_for(lambda: consumer.poll(0.2), "a record")
            consumer.commit()
        one.stop(0)
        log = one.brokers[0].folder / f"{GROUP_TOPIC}-0" / "00000000000000000000.log"
        content = bytearray(log.read_bytes())
        content[content.rindex(b"readers")] ^= 0x40
        log.write_bytes(content)
        one.start(0)
        finding = explain(one, "broker.coordinator-loading", "cluster")
        assert finding["says"].startswith(f"It has been loading {GROUP_TOPIC}-0 for")
        assert "It cannot read its log" in finding["because"][0]
        capsys.readouterr()
        assert run(["explain", "group", "readers", "--bootstrap-server", one.bootstrap]) == 3
        assert "answers COORDINATOR_LOAD_IN_PROGRESS" in capsys.readouterr().out, "and not that it does not exist"
