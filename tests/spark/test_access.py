"""How a query reaches a cluster."""

import pickle

from tests.compatibility.differential import secured
from tidelog.client.options import ProducerOptions, parse
from tidelog.spark.access import Access


def test_an_access_travels_is_a_key_and_shows_no_secret():
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": secured.CLIENT, "acks": "1"}
    access = Access.of("here:9092", parse(ProducerOptions, given))
    assert access == pickle.loads(pickle.dumps(access))
    assert {access: 1}[pickle.loads(pickle.dumps(access))] == 1
    other = parse(ProducerOptions, {**given, "sasl.jaas.config": secured.SCRAM})
    assert access != Access.of("here:9092", other)
    assert access == Access.of("here:9092", parse(ProducerOptions, {**given, "acks": "all"}))
    assert "wonder" not in repr(access)
