"""Options by Kafka's names, from text."""

import pytest

from tidelog.client.options import ConsumerOptions, ProducerOptions, parse
from tidelog.errors import InvalidOption


def test_options_are_read_from_text():
    options = parse(ProducerOptions, {"linger.ms": "7", "enable.idempotence": "False", "acks": "1", "client.id": "me"})
    assert (options.linger_ms, options.enable_idempotence, options.required_acks, options.client_id) == (
        7,
        False,
        1,
        "me",
    )
    consumer = parse(ConsumerOptions, {"group.id": "g", "partition.assignment.strategy": "range, roundrobin"})
    assert (consumer.group_id, consumer.partition_assignment_strategy) == ("g", ("range", "roundrobin"))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("no.such.option", "1", "no.such.option"),
        ("linger.ms", "soon", "linger.ms"),
        ("enable.idempotence", "1", "true"),
    ],
)
def test_what_is_no_option_is_named(name, text, says):
    with pytest.raises(InvalidOption, match=says):
        parse(ProducerOptions, {name: text})


@pytest.mark.parametrize(("acks", "number"), [("all", -1), ("-1", -1), (-1, -1), ("0", 0), (1, 1)])
def test_acks_has_two_names_for_all(acks, number):
    assert ProducerOptions(acks=acks).required_acks == number
