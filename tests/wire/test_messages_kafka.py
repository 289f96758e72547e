"""Messages that kio does not have, against bytes that Kafka's own classes made.

`java/MessageVectors.java` wrote `vectors/*.jsonl`: brokers.jsonl with kafka-clients 3.9.2, the last that has the requests
of the ZooKeeper controller; records.jsonl with the coordinators of 4.3.1. A line has the fields under Kafka's names
and the bytes; ours must decode to the same fields and encode to the same bytes.
"""

import json
from base64 import b64decode
from importlib import import_module
from pathlib import Path

import pytest

from tidelog.model import id_bytes
from tidelog.wire import codec
from tidelog.wire.message import fields, versions_of
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.groups.group_records import ConsumerGroupMemberMetadataValue

VECTORS = Path(__file__).parent / "vectors"
HOMES = {
    "brokers": [SCHEMAS[key].module for key in (4, 5, 6, 7)],
    "records": [
        "groups.group_records",
        "transactions.transaction_records",
        "groups.consumer_protocol",
    ],
}


def vectors(name):
    with (VECTORS / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def declared(name):
    """Every message of the modules that a file of vectors is about, by name."""
    modules = [import_module(f"tidelog.wire.messages.{home}") for home in HOMES[name]]
    return {cls.__name__: cls for module in modules for cls in vars(module).values() if hasattr(cls, "__fields__")}


def assert_same(given, message, version):
    """Kafka's names are compared without regard to case; its JSON leaves out tagged fields at their defaults."""
    ours = {field.name.replace("_", ""): field for field in fields(message) if version in versions_of(field.versions)}
    named = {name.lower(): value for name, value in given.items()}
    assert set(named) <= set(ours)
    assert all(ours[name].tag is not None for name in set(ours) - set(named))
    for name, value in named.items():
        assert_same_value(value, getattr(message, ours[name].name), ours[name], version)


def assert_same_value(expected, found, field, version):
    if isinstance(expected, list):
        assert len(expected) == len(found)
        for left, right in zip(expected, found, strict=True):
            assert_same_value(left, right, field, version)
    elif isinstance(expected, dict):
        assert_same(expected, found, version)
    elif isinstance(found, bytes):
        is_id = "uuid" in {field.kind.name, getattr(field.element, "name", "")}
        assert (id_bytes(expected) if is_id else b64decode(expected)) == found
    else:
        assert expected == found


@pytest.mark.parametrize("name", ["brokers", "records"])
def test_the_bytes_and_fields_of_kafka(name):
    classes = declared(name)
    for vector in vectors(name):
        cls, version, sent = classes[vector["class"]], vector["version"], bytes.fromhex(vector["bytes"])
        message = codec.decode(cls, version, sent)
        assert_same(vector["fields"], message, version)
        assert codec.encode(message, version) == sent, vector["class"]


def test_the_defaults_of_kafka():
    """The first vector of each version is an untouched object."""
    for name in HOMES:
        classes, seen = declared(name), set()
        for vector in vectors(name):
            key = vector["class"], vector["version"]
            if key not in seen:
                seen.add(key)
                message = classes[vector["class"]]()
                assert_same(vector["fields"], message, vector["version"])
                assert codec.encode(message, vector["version"]).hex() == vector["bytes"]


def test_every_message_outside_kio_has_vectors():
    covered = {(vector["class"], vector["version"]) for name in HOMES for vector in vectors(name)}
    wanted = set()
    for key in (4, 5, 6, 7):
        schema = SCHEMAS[key]
        wanted |= {(cls.__name__, schema.max_version) for cls in (schema.request, schema.response)}
    for cls in declared("records").values():
        if cls.__versions__ is not None:
            known = versions_of(cls.__versions__)
            wanted |= {(cls.__name__, version) for version in range(known.low, known.high + 1)}
    assert covered == wanted


def test_a_tagged_structure_may_be_null():
    """As Kafka's class writes it; the vectors have defaults and values only."""
    message = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id="",
        client_id="c",
        client_host="h",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=5,
        server_assignor=None,
        classic_member_metadata=None,
    )
    data = bytes.fromhex("00010263026802027401000000050001000100")
    assert codec.encode(message, 0) == data
    assert codec.decode(ConsumerGroupMemberMetadataValue, 0, data) == message
