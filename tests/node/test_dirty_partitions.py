"""A change that concerns every partition of a broker is the work of several turns."""

from tests.node.one_broker import OneBroker
from tidelog.model import Time, TopicPartition
from tidelog.node import purgatory
from tidelog.node.purgatory import DirtyPartitions

LED = 12


def test_a_dead_broker_is_noticed_in_turns(monkeypatch):
    """With 50,000 partitions it took 200 ms: each may have a new high watermark, or another ISR."""
    broker = OneBroker()
    for index in range(LED):
        broker.lead(index=index)
    looked_at = []
    changed = broker.node.purgatory.changed

    def noted(name, *state):
        looked_at.append(name.partition)
        return changed(name, *state)

    monkeypatch.setattr(broker.node.purgatory, "changed", noted)
    monkeypatch.setattr(purgatory, "MOST_DIRTY", 5)
    broker.live(0, 1)
    turns = []
    while looked_at:
        turns.append(looked_at.copy())
        looked_at.clear()
        if broker.node.next_deadline == broker.now.mono:
            broker.give("wake")
    assert turns == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]


def test_what_waits_for_a_later_turn_is_not_forgotten(monkeypatch):
    monkeypatch.setattr(purgatory, "MOST_DIRTY", 2)
    changed = {TopicPartition("t", index): False for index in range(5)}
    dirty, now = DirtyPartitions(changed), Time(7, 7)
    assert [name.partition for name in dirty.take(now)] == [0, 1]
    assert (changed, dirty.alarm.at) == ({}, 7)
    changed[TopicPartition("t", 4)] = True
    assert list(dirty.take(now).values()) == [True]
    seen = []
    while dirty.alarm.at == 7:
        dirty.wake(now)
        seen += [name.partition for name in dirty.take(now)]
    assert seen == [2, 3, 4]
