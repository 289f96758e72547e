"""`tidelog explain` where something is wrong, on brokers that run: each fault is caused, and its finding is asked for.

One test shows that nothing is reported of a healthy cluster that is busy. docs/explain.md lists all findings.
"""

import json
import shutil
import threading
from contextlib import contextmanager

import pytest

from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.client.admin import CONTROLLER
from tidelog.shell.transport import Admin, Consumer, Producer
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)


@pytest.fixture(scope="module")
def cluster():
    """Sessions are long, so that the others do not replace a broker that stands still."""
    with Cluster(brokers=3, auto_create_topics_enable=False, broker_session_timeout_ms=120_000) as started:
        yield started


@pytest.fixture
def explain(cluster, capsys):
    """(exit status, findings by kind) of a command; with `until` of the first that has a finding of this kind."""

    def call(*words, until=None, patience_ms=0):
        def result():
            capsys.readouterr()
            options = ["--watch-ms", "20", "--patience-ms", str(patience_ms), "--json"]
            code = run(["explain", words[0], "--bootstrap-server", cluster.bootstrap, *options, *words[1:]])
            printed = capsys.readouterr()
            assert code in (0, 2), printed.err
            found = {each["kind"]: each for each in json.loads(printed.out)["findings"]}
            return (code, found) if until in found or until is None else None

        return wait_for(result, within_s=20, what=f"explain {' '.join(words)}: {until}")

    return call


def call(cluster, broker, function):
    """On the loop of the broker."""
    return cluster.broker(broker).call(function)


@contextmanager
def full_folder(cluster, broker):
    """No room in the broker's folder, as its file system says."""

    def fill(hosted):
        disk = hosted.node.replicas._disk
        usage, type(disk).usage = (
            type(disk).usage,
            lambda self, folder: (10**9, 0) if self is disk else usage(self, folder),
        )
        hosted.node.replicas.folder_full(hosted.config.folders[0], "ENOSPC")
        return disk, usage

    disk, usage = call(cluster, broker, fill)
    try:
        yield
    finally:
        type(disk).usage = usage


def test_a_full_folder_is_named_to_whoever_asks_and_to_a_producer_that_waits(cluster, explain, tidelog):
    cluster.create_topic("full")
    leader = cluster.leader("full")
    place = ("--bootstrap-server", cluster.bootstrap)
    sent = {}

    def produce():
        with Producer(cluster.bootstrap) as producer:
            producer.send("full", b"waits")
            while not sent.get("reasons") and not sent.get("over"):
                producer.flush(0.2)
                sent["reasons"] = producer.waits(2_000)
            sent["delivered"] = producer.flush(60)

    with full_folder(cluster, leader):
        code, found = explain("partition", "full-0", until="partition.storage-full")
        assert code == 2
        finding = found["partition.storage-full"]
        assert f"of its leader, broker {leader}, is full" in finding["says"]
        assert any("log-dirs" in each for each in finding["helps"])
        code, found = explain("broker", str(leader))
        assert (code, "broker.folder-full" in found) == (2, True)
        follower = next(broker for broker in range(3) if broker != leader)
        assert explain("broker", str(follower))[1].keys().isdisjoint({"broker.folder-full"})
        thread = threading.Thread(target=produce)
        thread.start()
        wait_for(lambda: sent.get("reasons"), "the producer to say why it waits")
        text = f"full-0: leader {leader} answers KAFKA_STORAGE_ERROR: The log folder of full-0 is full"
        assert sent["reasons"] == [text]
    thread.join()
    assert [each.is_acknowledged for each in sent["delivered"]] == [True]
    wait_for(lambda: "partition.storage-full" not in explain("partition", "full-0")[1], "room again")
    assert tidelog("produce", *place, "--topic", "full", given=b"1\n").err == ""


def test_produce_and_consume_print_why_they_wait(cluster, tidelog, capsys):
    cluster.create_topic("waits", replicas=1)
    leader = cluster.leader("waits")
    place = ("--bootstrap-server", cluster.bootstrap, "--topic", "waits")
    assert tidelog("produce", *place, given=b"1\n").code == 0
    with full_folder(cluster, leader):
        options = ("--command-property", "delivery.timeout.ms=6000", "--command-property", "request.timeout.ms=5000")
        result = tidelog("produce", *place, *options, given=b"2\n")
    assert result.code == 1
    assert f"Waiting: waits-0: leader {leader} answers KAFKA_STORAGE_ERROR" in result.err
    cluster.kill(leader)
    try:
        result = tidelog("consume", *place, "--partition", "0", "--offset", "0", "--timeout-ms", "6000")
    finally:
        cluster.start(leader)
    assert "Waiting: waits-0: " in result.err, result
    assert "Processed a total of 0 messages" in result.err


def test_a_broker_that_stands_still(cluster, explain):
    """It died once before, and now the others count on it: they have not noticed. What it leads cannot be used, and what moves to it is stuck."""
    cluster.create_topic("still", 6, min_insync_replicas=1)
    cluster.create_topic("moved", replicas=1)
    home = cluster.leader("moved")
    still = next(each for each in range(3) if each != home and not call(cluster, each, is_controller))
    cluster.kill(still)  # that it died before must not be told as the reason
    explain("broker", str(still), until="broker.down")
    cluster.start(still)
    with Admin(cluster.bootstrap) as admin:
        wait_for(lambda: cluster.in_sync("still") == {0, 1, 2}, "the broker to be in sync")
        admin.ask(ElectLeadersRequest(election_type=0, topic_partitions=None), CONTROLLER)
    wait_for(lambda: any(cluster.leader("still", each) == still for each in range(6)), "it to lead")
    led = next(each for each in range(6) if cluster.leader("still", each) == still)
    cluster.pause(still)
    try:
        moved = ReassignablePartition(partition_index=0, replicas=[home, still])
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="moved", partitions=[moved])])
        with Admin(cluster.bootstrap) as admin:
            assert admin.ask(request, CONTROLLER).responses[0].partitions[0].error_code == 0
        code, found = explain("cluster", until="partition.move-stuck")
        assert code == 2
        assert f"broker {still} does not catch up" in found["partition.move-stuck"]["says"]
        assert found["broker.down"]["severity"] == "error"
        finding = explain("partition", f"still-{led}")[1]["partition.leader-silent"]
        assert f"Broker {still} is registered at " in finding["because"][0]
        assert finding["severity"] == "error"
        assert "has been down or cut off" not in json.dumps(finding)
    finally:
        cluster.resume(still)
    gone = {"partition.leader-silent", "partition.move-stuck"}
    wait_for(lambda: gone.isdisjoint(explain("cluster")[1]), "the broker to go on")


def is_controller(hosted):
    return hosted.node.broker.controller.leading


def test_too_few_replicas_in_sync_and_a_dead_broker(cluster, explain):
    cluster.create_topic("few", min_insync_replicas=3)
    dead = cluster.leader("few")
    cluster.kill(dead)
    try:
        code, found = explain("partition", "few-0", until="partition.too-few-in-sync")
        assert code == 2
        assert "NOT_ENOUGH_REPLICAS" in found["partition.too-few-in-sync"]["says"]
        assert "broker.down" in explain("broker", str(dead), until="broker.down")[1]
    finally:
        cluster.start(dead)
    wait_for(lambda: "partition.too-few-in-sync" not in explain("cluster")[1], "the cluster to be well again")


def test_throttles_that_were_left(cluster, explain, tidelog):
    cluster.create_topic("throttled")
    place = ("--bootstrap-server", cluster.bootstrap)
    for entity, option in (
        (("topics", "throttled"), "leader.replication.throttled.replicas=*"),
        (("brokers", "1"), "follower.replication.throttled.rate=1000000"),
    ):
        change = ("--alter", "--entity-type", entity[0], "--entity-name", entity[1], "--add-config", option)
        assert tidelog("configs", *place, *change).code == 0
    _, found = explain("cluster", until="topic.throttle-left")
    _, found = explain("cluster", until="broker.throttle-left")
    for kind in ("topic.throttle-left", "broker.throttle-left"):
        (advice,) = found[kind]["helps"]
        assert run(advice.partition("tidelog ")[2].split()) == 0, "the advised command removes it"
    gone = {"topic.throttle-left", "broker.throttle-left"}
    wait_for(lambda: gone.isdisjoint(explain("cluster")[1]), "no throttle to be left")


def test_a_group_that_does_not_commit(cluster, explain):
    cluster.create_topic("stalled")
    with (
        Producer(cluster.bootstrap) as producer,
        Consumer(cluster.bootstrap, "stalls", enable_auto_commit=False, auto_offset_reset="earliest") as consumer,
    ):
        producer.send("stalled", b"1")
        producer.flush()
        consumer.subscribe(["stalled"])
        wait_for(lambda: consumer.poll(0.2), "the first record")
        consumer.commit()
        producer.send("stalled", b"2")
        producer.flush()
        consumer.poll(0.2)
        code, found = explain("cluster", until="group.stands")
        assert (code, found["group.stands"]["about"]) == (2, "group stalls")
        assert "group.stands" in explain("group", "stalls")[1]


def test_a_folder_that_fails(explain, capsys, tmp_path):
    with Cluster(brokers=1, options={"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}) as broken:
        broken.create_topic("t", 2)

        def fail(hosted):
            hosted.server.notify(hosted.node.disk_failed, 0, hosted.config.folders[0], "EIO")

        def kinds():
            capsys.readouterr()
            code = run(["explain", "cluster", "--bootstrap-server", broken.bootstrap, "--watch-ms", "0", "--json"])
            assert code == 2
            return {each["kind"] for each in json.loads(capsys.readouterr().out)["findings"]}

        broken.broker(0).set_unreachable([], store=False, clients=True)  # so the controller does not hear of it yet
        broken.broker(0).call(fail)
        assert kinds() >= {"broker.folder-offline", "partition.storage-failed"}
        broken.broker(0).set_unreachable([], store=True, clients=True)
        wait_for(lambda: kinds() >= {"broker.folder-offline", "partition.offline"}, "the controller to know it")


def test_brokers_that_cannot_be_asked(tidelog, free_ports):
    (port,) = free_ports(1)
    result = tidelog("explain", "cluster", "--bootstrap-server", f"127.0.0.1:{port}")
    assert (result.code, "No broker is reachable" in result.err) == (3, True)


def test_nothing_is_said_of_a_healthy_cluster_that_is_busy(explain, capsys):
    """Producers, a group, and topics that come and go: three diagnoses, no problem.

    A disk that is nearly full is a problem of the machine, and true.
    """
    with Cluster(brokers=3) as busy:
        busy.create_topic("busy", 6, min_insync_replicas=2)
        over = threading.Event()
        threads = [threading.Thread(target=work, args=(busy, over)) for work in (_produce, _consume, _create_topics)]
        for thread in threads:
            thread.start()
        try:
            told = []
            for _ in range(3):
                capsys.readouterr()
                code = run(["explain", "cluster", "--bootstrap-server", busy.bootstrap, "--json"])
                told.append((code, json.loads(capsys.readouterr().out)))
        finally:
            over.set()
            for thread in threads:
                thread.join()
        usage = shutil.disk_usage(busy.folder)
        excused = {"broker.disk-fills"} if usage.free < 0.2 * usage.total else set()
        for code, printed in told:
            problems = [each for each in printed["findings"] if each["severity"] != "note"]
            assert [each for each in problems if each["kind"] not in excused] == []
            assert printed["unanswered"] == []
            assert code == 0 or problems


def _produce(busy, over):
    with Producer(busy.bootstrap) as producer:
        while not over.is_set():
            for _ in range(200):
                producer.send("busy", b"x" * 100)
            producer.flush(0.05)


def _consume(busy, over):
    with Consumer(busy.bootstrap, "readers", auto_offset_reset="earliest", auto_commit_interval_ms=500) as consumer:
        consumer.subscribe(["busy"])
        while not over.is_set():
            consumer.poll(0.1)


def _create_topics(busy, over):
    number = 0
    while not over.wait(0.2):
        busy.create_topic(f"passing-{number}", 2)
        busy.delete_topics([f"passing-{number}"])
        number += 1
