"""Brokers from `server.properties` files whose directories `tidelog storage format` made: a quorum of fixed voters, one
whose first voters stand in their directories, and one of controllers that are no brokers."""

import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.ports import free_ports
from tests.waiting import PATIENCE_S, wait_for
from tidelog.model import id_text
from tidelog.shell.supervisor import is_complete, metadata_view
from tidelog.shell.transport import Admin, Producer
from tidelog.wire.messages.cluster.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
NODES = range(1, 4)
BROKERS = range(4, 7)


def tidelog(*words):
    return [sys.executable, "-m", "tidelog", *map(str, words)]


def write_files(folder, ports, controllers, naming):
    for node in NODES:
        (folder / f"{node}.properties").write_text(
            f"process.roles=broker,controller\nnode.id={node}\ncontroller.listener.names=CONTROLLER\n{naming}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{ports[node - 1]},CONTROLLER://127.0.0.1:{controllers[node - 1]}\n"
            f"log.dirs={folder}/node-{node}\nauto.create.topics.enable=true\ndefault.replication.factor=3\n"
        )


@pytest.mark.parametrize("is_fixed", [True, False], ids=["fixed voters", "voters in the directories"])
def test_three_files_make_a_cluster(tmp_path, is_fixed):
    found = free_ports(6)
    ports, controllers = found[:3], found[3:]
    places = [f"127.0.0.1:{port}" for port in controllers]
    if is_fixed:
        naming = f"controller.quorum.voters={','.join(f'{n}@{place}' for n, place in zip(NODES, places, strict=True))}"
        more = ()
    else:
        naming = f"controller.quorum.bootstrap.servers={','.join(places)}"
        ids = [id_text(bytes([4, node]) * 8) for node in NODES]
        voters = [f"{n}@{place}:{each}" for n, place, each in zip(NODES, places, ids, strict=True)]
        more = ("--initial-controllers", ",".join(voters))
    write_files(tmp_path, ports, controllers, naming)
    with ExitStack() as stack:
        for node in NODES:
            file = tmp_path / f"{node}.properties"
            format_it = tidelog("storage", "format", "-t", CLUSTER_ID, "-c", file, *more)
            subprocess.run(format_it, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
            process = stack.enter_context(subprocess.Popen(tidelog("broker", file), stderr=subprocess.DEVNULL))
            stack.callback(process.wait, PATIENCE_S)
            stack.callback(process.terminate)
        for port in ports:
            view = wait_for(
                lambda port=port: is_complete(found := metadata_view("127.0.0.1", port), frozenset(NODES)) and found,
                "a broker that knows all",
            )
            assert view.brokers == frozenset(NODES)
        with Producer(f"127.0.0.1:{ports[0]}", acks="all") as producer:
            producer.send("t", b"x")
            (delivery,) = producer.flush(timeout=PATIENCE_S)
            assert delivery.is_acknowledged, delivery


def test_three_controllers_and_three_brokers(tmp_path):
    """Kafka's usual layout. The brokers know bootstrap servers only; the active controller is killed."""
    found = free_ports(6)
    places = {n: f"127.0.0.1:{port}" for n, port in zip(range(1, 7), found, strict=True)}
    servers = ",".join(places[n] for n in NODES)
    ids = {n: id_text(bytes([4, n]) * 8) for n in NODES}
    voters = ",".join(f"{n}@{places[n]}:{ids[n]}" for n in NODES)
    bootstrap = ",".join(places[n] for n in BROKERS)
    processes = {}
    with ExitStack() as stack:
        for node, place in places.items():
            role, listener = ("controller", "CONTROLLER") if node in NODES else ("broker", "PLAINTEXT")
            file = tmp_path / f"{node}.properties"
            file.write_text(
                f"process.roles={role}\nnode.id={node}\ncontroller.listener.names=CONTROLLER\n"
                f"controller.quorum.bootstrap.servers={servers}\nlisteners={listener}://{place}\n"
                f"log.dirs={tmp_path}/node-{node}\ndefault.replication.factor=3\n"
            )
            more = ("--initial-controllers", voters) if node in NODES else ()
            format_it = tidelog("storage", "format", "-t", CLUSTER_ID, "-c", file, *more)
            subprocess.run(format_it, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
            process = stack.enter_context(subprocess.Popen(tidelog("broker", file), stderr=subprocess.DEVNULL))
            processes[node] = process
            stack.callback(process.wait, PATIENCE_S)
            stack.callback(process.terminate)
        for node in BROKERS:
            wait_for(
                lambda port=found[node - 1]: is_complete(metadata_view("127.0.0.1", port), frozenset(BROKERS)),
                "a broker that knows all",
            )
        with Admin(bootstrap) as admin, Producer(bootstrap, acks="all") as producer:
            before = write(admin, producer, "before")
            assert before in NODES
            assert command("explain", "cluster", "--bootstrap-server", bootstrap) == 0
            assert command("status", "--bootstrap-server", bootstrap) == 0
            processes[before].kill()
            after = write(admin, producer, "after")
            assert after in set(NODES) - {before}


def write(admin, producer, topic):
    """Create the topic and write to it; returns who leads the quorum."""
    created = CreatableTopic(name=topic, num_partitions=3, replication_factor=3, assignments=[], configs=[])
    answer = admin.ask(CreateTopicsRequest(topics=[created], timeout_ms=30_000))
    assert [each.error_code for each in answer.topics] == [0], answer
    producer.send(topic, b"x")
    (delivery,) = producer.flush(timeout=PATIENCE_S)
    assert delivery.is_acknowledged, delivery
    return leader_of_quorum(admin)


def leader_of_quorum(admin):
    log = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    return admin.ask(DescribeQuorumRequest(topics=[log])).topics[0].partitions[0].leader_id


def command(*words):
    done = subprocess.run(tidelog(*words), capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    print(done.stdout, done.stderr)  # noqa: T201 (shown if the test fails)
    return done.returncode
