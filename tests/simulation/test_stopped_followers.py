"""Followers that stop, one after the other, and go on: the ISR follows them, and the high watermark waits as it must.

Either the lag is the first to be noticed, by the leader, or the session, by the store; then the controller is among the
stopped. With real processes that are stopped (SIGSTOP): tests/compatibility/test_slow_follower.py.
"""

import pytest

from tests.simulation.test_three_brokers import TOPIC, running, settled
from tidelog.model import TopicPartition
from tidelog.sim.faults import SECOND

LAG_FIRST = {"replica_lag_time_max_ms": "1000", "broker_session_timeout_ms": "60000"}
SESSION_FIRST = {"replica_lag_time_max_ms": "60000", "broker_session_timeout_ms": "2000"}
LONG = 600 * SECOND


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("properties", "controller_leads"), [(LAG_FIRST, True), (SESSION_FIRST, False)])
def test_the_isr_and_the_high_watermark_follow_those_that_stop_and_go_on(seed, properties, controller_leads):
    cluster = running(seed, partitions=3, **properties)
    world, counts = cluster.world, cluster.world.counts
    names = [TopicPartition(TOPIC, number) for number in range(3)]
    name = next(each for each in names if (cluster.leader(each) is cluster.controller) is controller_leads)
    leader, controller = cluster.leader(name), cluster.controller
    first, second = sorted(
        (host for host in world.hosts if host is not leader), key=lambda host: host is not controller
    )
    producer = cluster.producers[names.index(name)]

    def isr():
        return set(cluster.suite.ghosts.states[name].isr)

    def high_watermark():
        (state,) = (each.state for each in cluster.replicas(name) if each.broker == leader.broker_id)
        return state.high_watermark

    def is_acknowledged():
        before = producer.acked
        return lambda: producer.acked > before

    world.pause(first, LONG)
    cluster.expect(lambda: isr() == {leader.broker_id, second.broker_id}, 10, "an ISR of two")
    cluster.expect(is_acknowledged(), 5, "two in sync are enough")
    world.pause(second, LONG)
    cluster.expect(lambda: isr() == {leader.broker_id}, 10, "an ISR of one")
    stuck, mark = producer.acked, high_watermark()
    cluster.expect(lambda: "produce: NOT_ENOUGH_REPLICAS" in counts, 120, "one alone refuses")
    assert (producer.acked, high_watermark()) == (stuck, mark)
    for host in (first, second):
        world.resume(host)
    cluster.expect(lambda: len(isr()) == 3, 20, "all in sync again")
    cluster.expect(is_acknowledged(), 5, "three are enough again")
    settled(cluster)
