"""What a node does of itself: at each wake only the parts whose moment has come, and nothing is left for the next input."""

import pytest

from tests.node.one_broker import TOPIC_ID, OneBroker
from tidelog.node.membership import RETRY_MS
from tidelog.node.node import Node
from tidelog.ports import StoreResult
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic

OWNER, TOKEN = "test", 7


@pytest.fixture
def woken(monkeypatch):
    """(part, when its alarm was set to, when it was woken)."""
    found = []

    def spied(part, wake):
        def spy(now):
            found.append((type(part).__name__, part.alarm.at, now.mono))
            return wake(now)

        return spy

    make = Node.__init__

    def made(self, *arguments, **options):
        make(self, *arguments, **options)
        for part in self._woken:
            monkeypatch.setattr(part, "wake", spied(part, part.wake))

    monkeypatch.setattr(Node, "__init__", made)
    return found


def test_only_parts_whose_alarm_is_due_are_woken(woken):
    broker = OneBroker()
    broker.lead(isr=(0, 1))
    broker.produce("m", timeout_ms=3_000)
    broker.passes(60_000)
    for _ in range(3):
        broker.give("wake")
    assert {"Jobs", "Purgatory", "Integrity"} <= {name for name, *_ in woken}
    assert [each for each in woken if each[1] > each[2]] == []


def test_every_part_with_an_alarm_is_woken_or_looks_after_itself():
    node = OneBroker().node
    others = [part for part in node._alarms._parts if part not in node._woken]
    assert [type(part).__name__ for part in others] == ["Fetching", "IsrProposals"]


def test_a_late_answer_of_the_broker_to_itself_is_handed_down_in_the_same_turn():
    broker = OneBroker()
    broker.lead()
    heard = []
    broker.node._owners[OWNER] = lambda token, answer: heard.append((token, answer.error_code))
    wanted = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0, partition_max_bytes=1_000)
    topic = FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])
    request = FetchRequest(max_wait_ms=50, min_bytes=1, topics=[topic])
    broker.node.dispatch.send_to_self(1, 17, request, OWNER, TOKEN, broker.now)
    broker.give("wake")
    assert heard == []
    broker.passes(50)
    assert heard == [(TOKEN, 0)]


def test_a_store_that_fails_is_asked_again_after_a_pause():
    broker = OneBroker()
    broker.store_answers = False
    broker.give("session_started", broker.session.session)
    broker._at(broker.now.mono + 5 * RETRY_MS)  # nothing is due, and nobody wakes the node
    store = next(each for each in broker.stores if each.operations[0].path == "/brokers/ids")
    broker.give("store_result", store.token, StoreResult("unknown"))
    assert broker.node.broker.membership.alarm.at == broker.now.mono + RETRY_MS
