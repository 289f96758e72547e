"""Describing with a broker down: which partitions lack replicas, leaders or in-sync replicas, in our tool and Kafka's."""

import pytest

from tests.waiting import wait_for
from tidelog.cli.main import run

TOPICS = {
    "all": ("0:1:2,1:2:0", "1"),
    "alone": ("2,0", "1"),
    "strict": ("2:1,0:1", "2"),
    "exact": ("0:1:2", "2"),
    "elsewhere": ("0:1", "1"),
}
"""Replicas of each partition, and min.insync.replicas."""

FOUND = {
    "--under-replicated-partitions": ["all-0", "all-1", "alone-0", "exact-0", "strict-0"],
    "--unavailable-partitions": ["alone-0"],
    "--under-min-isr-partitions": ["alone-0", "strict-0"],
    "--at-min-isr-partitions": ["alone-1", "exact-0", "strict-1"],
}
"""Nobody is in sync in alone-0: its only replica is eligible (KIP-966)."""


@pytest.fixture(scope="module")
def without_broker_2(cluster):
    place = ["--bootstrap-server", f"{cluster.children[0].host}:{cluster.children[0].port}"]
    for name, (replicas, least) in TOPICS.items():
        options = ["--replica-assignment", replicas, "--config", f"min.insync.replicas={least}"]
        assert run(["topics", *place, "--create", "--topic", name, *options]) == 0
    cluster.kill(2)
    return place


def partitions(text):
    """`topic-partition` of each line that describes one."""
    cells = [line.split("\t") for line in text.splitlines() if line.startswith("\t")]
    return sorted(f"{topic.split()[-1]}-{number.split()[-1]}" for _, topic, number, *_ in cells)


@pytest.mark.parametrize("which", FOUND)
def test_the_same_partitions_are_found(without_broker_2, kafka_tool, capsys, which):
    def ours():
        capsys.readouterr()
        assert run(["topics", *without_broker_2, "--describe", which]) == 0
        return capsys.readouterr().out

    def same():
        theirs = kafka_tool("TopicCommand", *without_broker_2, "--describe", which)
        lines = [sorted(line.rstrip() for line in text.splitlines() if line.strip()) for text in (ours(), theirs)]
        told.append(lines)
        return lines[0] == lines[1]

    told = []
    wait_for(lambda: partitions(ours()) == FOUND[which], f"{FOUND[which]}")
    # Each asks whichever broker it likes: these may hear one after the other that broker 2 is gone.
    assert same() or same(), told


def test_excluding_what_is_internal(without_broker_2, kafka_tool, capsys):
    for action in ("--list", "--describe"):
        theirs = kafka_tool("TopicCommand", *without_broker_2, action, "--exclude-internal")
        capsys.readouterr()
        assert run(["topics", *without_broker_2, action, "--exclude-internal"]) == 0
        assert sorted(capsys.readouterr().out.split()) == sorted(theirs.split())
