"""Brokers from `server.properties` files whose directories `tidelog storage format` made: a quorum of fixed voters, and one
whose first voters stand in their directories."""

import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.ports import free_ports
from tests.waiting import PATIENCE_S, wait_for
from tidelog.model import id_text
from tidelog.shell.supervisor import is_complete, metadata_view
from tidelog.shell.transport import Producer

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
NODES = range(1, 4)


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
