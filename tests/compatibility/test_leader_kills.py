"""A leader is killed with SIGKILL twenty times under an idempotent acks=all load: nothing that was acknowledged is lost,
nothing is there twice, each partition keeps its order.
"""

import pytest

from tests.compatibility.support import Load, Topic, assert_exact, stored
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)

KILLS = 20
PARTITIONS = 3


def test_leaders_die_and_no_acknowledged_record_does(cluster):
    topic = Topic(cluster.bootstrap, "killed", PARTITIONS, min_insync_replicas="2")
    with Load(cluster.bootstrap, topic) as load:
        for kill in range(KILLS):
            load.await_more(50)
            partition = kill % PARTITIONS
            leader = wait_for(lambda at=partition: topic.leader(at) + 1, "a leader") - 1
            cluster.kill(leader)
            wait_for(
                lambda at=partition, old=leader: topic.leader(at) not in (-1, old), f"another leader than {leader}"
            )
            load.await_more(50)
            cluster.start_broker(leader)
            wait_for(lambda: all(len(isr) == 3 for isr in topic.isrs().values()), f"broker {leader} in sync again")
        load.stop()
        assert_exact(load, stored(cluster.bootstrap, topic))
    assert len(load.acknowledged) >= KILLS * 100
