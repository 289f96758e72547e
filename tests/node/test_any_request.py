"""No request of a client, however odd, ends in a fault of ours: every API in every version, with drawn contents.

Method: fields are drawn from edge values, lists have up to two elements; a request is well formed but means anything.
An answer, a refusal or a wait are all fine; `request.failed`, an assertion or an exception are not.
"""

from random import Random

import pytest

from tests.node.one_broker import TOPIC_ID, OneBroker
from tidelog.api.registry import APIS
from tidelog.wire import message
from tidelog.wire.messages import SCHEMAS

CLIENTS = [key for key, api in sorted(APIS.items()) if api.caller != "broker"]
NUMBERS = (-2, -1, 0, 1, 2, 5, 127)
NAMES = ("", "t", "nope", "a b", "__consumer_offsets")


def drawn(cls, random, depth=0):
    found = cls()
    for field in message.fields(cls):
        value = getattr(found, field.name)
        if field.kind == "array":
            count = random.choice((0, 1, 2)) if depth < 4 else 0
            setattr(found, field.name, [element(field.element, random, depth) for _ in range(count)])
        elif isinstance(value, bool):
            setattr(found, field.name, random.random() < 0.5)
        elif isinstance(value, int):
            setattr(found, field.name, random.choice((value, *NUMBERS)))
        elif isinstance(value, str):
            setattr(found, field.name, random.choice(NAMES))
        elif field.kind == "uuid":
            setattr(found, field.name, random.choice((value, TOPIC_ID)))
    return found


def element(of, random, depth):
    if isinstance(of, type):
        return drawn(of, random, depth + 1)
    return {"string": "t", "uuid": TOPIC_ID}.get(of.kind, random.choice((0, 1, 9)))


@pytest.mark.parametrize("key", CLIENTS, ids=lambda key: SCHEMAS[key].name)
def test_no_request_ends_in_a_fault_of_ours(key):
    random = Random(key)
    for version in range(APIS[key].low, APIS[key].high + 1):
        for _ in range(4):
            broker = OneBroker()
            broker.lead()
            broker.produce("m1", acks=1)
            broker.send(drawn(SCHEMAS[key].request, random), version=version)
            broker.passes(100)
            assert [event.fields for event in broker.events if event.kind == "request.failed"] == []
