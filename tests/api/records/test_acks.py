"""Rule 4: what an acknowledgement means, on a real log."""

from tests.node.one_broker import CLIENT, OneBroker, values
from tidelog.errors import ErrorCode


def test_acks_all_is_answered_when_the_whole_isr_has_fetched_past_the_record():
    broker = OneBroker()
    broker.lead()
    number = broker.produce("m1")
    assert broker.produced(number) is None
    broker.fetch_as(1, 1)
    assert broker.produced(number) is None
    broker.fetch_as(2, 1)
    assert broker.produced(number) == (0, 0)
