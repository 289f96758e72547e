"""What an unclean election lost: seen in the folder of the leader before as long as that is down, told by the brokers once
it has come back and cut its log."""

import pytest

from tests.audit.gone import wait_gone
from tests.waiting import wait_for
from tidelog.audit.core import finding
from tidelog.audit.io import cluster, fetching, folders, run
from tidelog.cli.admin_requests import describe_topics
from tidelog.shell.transport import Admin, Producer
from tidelog.testing import Cluster

TOPIC = "t"


@pytest.fixture
def tides():
    with Cluster(brokers=3, unclean_leader_election_enable="true") as running:
        running.create_topic(TOPIC, 1, replicas=2)
        yield running


def state(admin):
    (topic,) = describe_topics(admin, [TOPIC])
    return topic.partitions[0]


def until(admin, holds):
    return wait_for(lambda: found if holds(found := state(admin)) else None, "the partition's new state")


def produce(tides, *values):
    with Producer(tides.bootstrap, acks="all") as producer:
        for value in values:
            producer.send(TOPIC, value)
            assert not [each for each in producer.flush() if each.error]


def audited(tides, *given):
    with Admin(tides.bootstrap) as admin:
        found = folders.find(given) if given else []
        made = cluster.plan(admin, cluster.ClusterAccess(tides.bootstrap), topics=[TOPIC], given=found, acknowledged={})
    try:
        return run.audit(made)
    finally:
        fetching.close()


def test_what_an_unclean_election_lost_is_reported_before_and_after_the_old_leader_is_back(tides):
    with Admin(tides.bootstrap) as admin:
        produce(tides, b"both")
        found = state(admin)
        leader = found.leader_id
        (follower,) = set(found.replica_nodes) - {leader}
        tides.brokers[follower].stop()
        until(admin, lambda now: follower not in now.isr_nodes)
        produce(tides, b"lost", b"lost, too")
        tides.brokers[leader].stop()
        tides.start(follower)
        wait_gone(tides, leader)
        until(admin, lambda now: now.leader_id == follower)
        produce(tides, b"new")
        report = audited(tides, tides.brokers[leader].folder)
        lost = [each for each in report.findings if each.kind == finding.ELECTION]
        assert [(each.brokers, each.start, each.end) for each in lost] == [((leader,), 1, 3)]
        assert "2 of them were committed" in lost[0].sentence
        tides.start(leader)
        until(admin, lambda now: leader in now.isr_nodes)
    report = audited(tides)
    assert report.is_good
    (heard,) = [each for each in report.findings if each.kind == finding.HEARD]
    assert heard.brokers == (follower,)
    assert heard.sentence == (f"broker {follower} was elected uncleanly; broker {leader} truncated offsets 1 to 2")
