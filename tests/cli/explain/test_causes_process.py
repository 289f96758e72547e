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
from tidelog.coordinator.placement import partition_for
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

GROUP_PARTITIONS = 3


@pytest.fixture(scope="module")
def three():
    """Sessions are long, so that nobody replaces a broker that stands still."""
    options = {"offsets.topic.num.partitions": str(GROUP_PARTITIONS), "auto.leader.rebalance.enable": "false"}
    with Cluster(brokers=3, broker_session_timeout_ms=120_000, options=options) as started:
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


def test_a_broker_that_stands_still_as_a_follower_and_under_a_group(three, explain):
    """It counts as in sync of one topic, and leads the only replica of a partition that a group reads."""
    three.create_topic("silent", 3)
    three.create_topic("alone", 3, replicas=1)
    with Consumer(three.bootstrap, "reads-alone", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        with Producer(three.bootstrap) as producer:
            for partition in range(3):
                producer.send("alone", b"1", partition=partition)
            producer.flush()
        consumer.subscribe(["alone"])
        read = set()
        wait_for(lambda: read.update(each.partition for each in consumer.poll(0.2)) or len(read) == 3, "all partitions")
        consumer.commit()
        coordinator = three.leader(GROUP_TOPIC, partition_for("reads-alone", GROUP_PARTITIONS))
        number = next(each for each in range(3) if three.leader("alone", each) != coordinator)
        still = three.leader("alone", number)
        follows = next(each for each in range(3) if three.leader("silent", each) != still)
        three.pause(still)
        try:
            finding = explain(three, "partition.member-silent", "partition", f"silent-{follows}")
            assert f"Broker {still} counts as in sync, but cannot follow" in finding["says"]
            assert finding["helps"] == [f"Start broker {still}, or restart it if it hangs."]
            finding = explain(three, "group.offline", "group", "reads-alone")
            assert f"It cannot read alone-{number} at offset" in finding["says"]
        finally:
            three.resume(still)
        explain(three, "partition.member-silent", "partition", f"silent-{follows}", absent=True)
        explain(three, "group.offline", "group", "reads-alone", absent=True)


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


@pytest.fixture(scope="module")
def one():
    with Cluster(brokers=1, options={"offsets.topic.num.partitions": "1"}) as started:
        yield started


def test_a_coordinator_whose_log_has_a_bit_that_turned(one, explain, capsys):
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


def read_and_commit(consumer, topic):
    consumer.subscribe([topic])
    wait_for(lambda: consumer.poll(0.2, 1), f"a record of {topic}")
    consumer.commit()


def test_a_group_whose_members_read_another_topic(three, explain):
    three.create_topic("left")
    three.create_topic("joined")
    send(three, "left", b"1")
    send(three, "joined", b"1")
    with Consumer(three.bootstrap, "moved-on", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        read_and_commit(consumer, "left")
        send(three, "left", b"2")
        read_and_commit(consumer, "joined")
        finding = explain(three, "group.unassigned", "group", "moved-on")
        assert finding["says"] == "No member reads left-0 at offset 1; 1 records are waiting."


def test_a_group_that_waits_for_an_open_transaction(three, explain):
    three.create_topic("undecided")
    send(three, "undecided", b"1")
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": "read_committed"}
    with (
        TransactionalProducer(three.bootstrap, transactional_id="slow", transaction_timeout_ms=600_000) as sender,
        Consumer(three.bootstrap, "waits-for-it", **options) as consumer,
    ):
        read_and_commit(consumer, "undecided")
        sender.begin()
        sender.send("undecided", b"2")
        sender.flush()
        finding = explain(three, "group.open-transaction", "group", "waits-for-it")
        assert finding["says"].startswith("It is stuck in undecided-0 at offset 1, where an open transaction begins")
        sender.commit()
        wait_for(lambda: consumer.poll(0.2), "the record of the transaction")
        consumer.commit()
        explain(three, "group.open-transaction", "group", "waits-for-it", absent=True)


def test_a_broker_without_the_store_gets_no_producer_ids(three, explain):
    """Its clock moves on alone: a broker reports what it has waited for longer than five seconds."""
    broker = three.brokers[next(each for each in (0, 1, 2) if each != controller_of(three))]
    broker.set_unreachable([], store=False, clients=True)
    try:
        broker.call(lambda hosted: hosted.node.broker.producer_ids.fetch_block())
        broker.change_clock(lambda clock: clock.advance(6_000))
        finding = explain(three, "broker.no-producer-ids", "broker", str(broker.id))
        assert finding["says"].startswith("It has no producer ids, and has waited for some for ")
        finding = explain(three, "broker.store-silent", "broker", str(broker.id))
        assert "the metadata store has not answered it for" in finding["says"]
    finally:
        broker.set_unreachable([], store=True, clients=True)
    wait_for(lambda: broker.call(lambda hosted: hosted.node.broker.producer_ids.is_ready), "a block of producer ids")


def test_a_batch_that_rotted_and_that_nobody_else_has(one, explain):
    one.create_topic("rotten")
    send(one, "rotten", b"1", b"2")
    one.stop(0)
    log = one.brokers[0].folder / "rotten-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[content.index(b"1", 61)] ^= 0x40
    log.write_bytes(content)
    one.start(0)

    with Consumer(one.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("rotten", 0)])
        damaged = lambda hosted: "rotten" in {each.topic for each in hosted.node.broker.damaged}  # noqa: E731
        wait_for(lambda: consumer.poll(0.1) or one.brokers[0].call(damaged), "the damage to be found")
    finding = explain(one, "partition.damaged", "partition", "rotten-0")
    assert finding["severity"] == "error"
    assert finding["because"][0].startswith("The batch at offset 0:")


def test_a_min_insync_replicas_of_a_file_that_the_clusters_overrides(explain):
    """As after an operator set the cluster's to one value, and left another one in the file."""
    with Cluster(brokers=1, min_insync_replicas=2) as given:
        override(given, 3)
        finding = explain(given, "broker.min-insync-replicas", "broker", "0")
        assert finding["says"] == "min.insync.replicas=2 in its file has no effect: 3 applies to all brokers."
        assert run(finding["helps"][1].partition("tidelog ")[2].split()) == 0, "the advised command ends it"
        explain(given, "broker.min-insync-replicas", "broker", "0", absent=True)


def override(cluster, value):
    change = ["--entity-type", "brokers", "--entity-default", "--add-config", f"min.insync.replicas={value}"]
    assert run(["configs", "--bootstrap-server", cluster.bootstrap, "--alter", *change]) == 0
