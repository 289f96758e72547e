"""Whose quota holds: Kafka's eight places, the most specific first."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config.broker import BrokerConfig
from tidelog.node.client_throttling import Billing, Muting
from tidelog.node.connections import Connection
from tidelog.node.quotas import MAX_CACHED_LIMITS, Limit, Limits, Quotas

RATE = "producer_byte_rate"
ORDER = [
    ({"user": "u", "client-id": "c"}, ("u", "c")),
    ({"user": "u", "client-id": None}, ("u", "c")),
    ({"user": "u"}, ("u", "")),
    ({"user": None, "client-id": "c"}, ("u", "c")),
    ({"user": None, "client-id": None}, ("u", "c")),
    ({"user": None}, ("u", "")),
    ({"client-id": "c"}, ("", "c")),
    ({"client-id": None}, ("", "c")),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_specific_one_holds(first):
    limits = Limits([(entity, {RATE: float(number)}) for number, (entity, _) in enumerate(ORDER) if number >= first])
    assert limits.of(RATE, "u", "c") == Limit(float(first), ORDER[first][1])


def test_others_have_none():
    limits = Limits([({"user": "u", "client-id": "c"}, {RATE: 1.0}), ({"ip": None}, {"connection_creation_rate": 5.0})])
    assert limits.of(RATE, "u", "d") is None
    assert limits.of("consumer_byte_rate", "u", "c") is None
    assert limits.names == {RATE}
    assert limits.rates == {None: 5.0}


def test_addresses_are_known_however_they_are_written():
    quota = {"connection_creation_rate": 5.0}
    assert Limits([({"ip": "0:0:0:0:0:0:0:1"}, quota), ({"ip": "host"}, quota)]).rates == {"::1": 5.0, "host": 5.0}


def test_what_clients_choose_is_remembered_within_bounds():
    limits = Limits([({"client-id": None}, {RATE: 1.0})])
    for number in range(MAX_CACHED_LIMITS + 10):
        assert limits.of(RATE, "u", f"c{number}") == Limit(1.0, ("", f"c{number}"))
    assert len(limits._found) <= MAX_CACHED_LIMITS


def test_long_ids_that_clients_choose_take_no_memory():
    quotas = Quotas(BrokerConfig({"node.id": "0"}), lambda: 0)
    quotas.change({"client-id": None}, {"request_percentage": 1.0})
    billing, connection = Billing(quotas, Muting([])), Connection(1, "PLAINTEXT", "10.0.0.1", "User:alice")
    tracemalloc.start()
    try:
        for number in range(100):
            bill = billing.open(connection, f"{number:032000d}", 100)
            quotas.record_request(bill.user, bill.client_id, 18, size=100, answer=100, spent_ns=1, now=number)
        del bill
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*(entity for entity, _ in ORDER), {"ip": None}, {"ip": "::1"}, {"ip": "0:0:0:0:0:0:0:1"}]),
            st.dictionaries(st.sampled_from([RATE, "consumer_byte_rate"]), st.sampled_from([1.0, 2.0])),
        )
    )
)
def test_quotas_that_change_one_by_one_are_those_that_are_set_at_once(changes):
    changed, last = Limits(), {}
    for entity, values in changes:
        rates = (
            dict.fromkeys(["connection_creation_rate"] if values else [], 3.0 + len(values))
            if "ip" in entity
            else values
        )
        changed.change(entity, rates)
        last.pop(str(entity), None)
        last[str(entity)] = (entity, rates)
        fresh = Limits(last.values())
        assert changed.names == fresh.names
        assert changed.rates == fresh.rates
        for name in (RATE, "consumer_byte_rate"):
            for user, client in (("u", "c"), ("u", "d"), ("v", "c"), ("v", "d")):
                assert changed.of(name, user, client) == fresh.of(name, user, client)
