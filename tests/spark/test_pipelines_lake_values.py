"""Lakes of values that a schema registry describes."""

import json

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from google.protobuf.message_factory import GetMessageClass

from tests.spark import schema_registry
from tests.spark.records import create, send
from tests.spark.test_pipelines_mirror import read
from tidelog.spark.pipelines import replay
from tidelog.spark.pipelines.lake import PIPELINE
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.pipelines.running import run
from tidelog.spark.values.proto_schema import Schema as ProtoSchema


@pytest.fixture(scope="module")
def registry():
    with schema_registry.running() as url:
        yield url


@pytest.fixture
def client(registry):
    with SchemaRegistryClient({"url": registry}) as client:
        yield client


def record(*fields):
    return json.dumps({"type": "record", "name": "Order", "fields": [{"name": n, "type": t} for n, t in fields]})


FIRST = record(("id", "long"), ("country", "string"), ("tags", {"type": "array", "items": "string"}))
SECOND = record(("id", "int"), ("country", ["null", "string"]), ("more", "double"))
PROTO = """
syntax = "proto3"; package shop;
enum Kind { NEW = 0; PAID = 1; }
message Order { int64 id = 1; Kind kind = 2; repeated string tags = 3; }
"""
SCHEMA = {
    "type": "object",
    "title": "Order",
    "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
}


def fill(spark, tides, folder, registry, **options):
    given = {"path": str(folder / "table"), "registry": registry, **options}
    plan = Plan(tides.bootstrap, folder / "checkpoint", PIPELINE.complete(given), once=True)
    run(PIPELINE.stages(spark, plan), once=True, on_progress=lambda _: None)
    return folder / "table"


def test_a_topic_of_avro_becomes_a_table(spark, tides, registry, client, tmp_path):
    topic = create(tides, "avro", 2)
    first = AvroSerializer(client, FIRST)
    second = AvroSerializer(client, SECOND, conf={"subject.name.strategy": lambda *_: f"{topic}-later"})
    value = SerializationContext(topic, MessageField.VALUE)
    orders = [{"id": 2**40 + number, "country": "DE", "tags": ["a"] * (number % 3)} for number in range(20)]
    written = [first(order, value) for order in orders]
    send(tides.bootstrap, topic, [*written, b"no frame", None, written[0][:-1]], 0)
    table = fill(spark, tides, tmp_path, registry, topic=topic, values="avro", partition="country")
    later = [second({"id": 7, "country": None, "more": 0.5}, value)]
    send(tides.bootstrap, topic, later, 1)
    more = {"subject": f"{topic}-later", "evolve": "add"}
    fill(spark, tides, tmp_path, registry, topic=topic, values="avro", partition="country", **more)
    rows = (
        DeltaTable(table)
        .to_pyarrow_table()
        .sort_by([("_partition", "ascending"), ("_offset", "ascending")])
        .to_pylist()
    )
    assert [(row["_partition"], row["_offset"]) for row in rows] == [*((0, number) for number in range(23)), (1, 0)]
    assert [{name: row[name] for name in ("id", "country", "tags")} for row in rows[:20]] == orders
    assert [row["_malformed"] for row in rows] == [*[None] * 20, b"no frame".hex(), None, written[0][:-1].hex(), None]
    assert (rows[21]["id"], rows[23]["id"], rows[23]["tags"]) == (None, 7, None)
    assert [row["more"] for row in rows] == [*[None] * 23, 0.5]


def test_a_topic_of_json_schema_becomes_a_table(spark, tides, registry, client, tmp_path):
    topic = create(tides, "json-schema")
    number = client.register_schema(f"{topic}-value", Schema(json.dumps(SCHEMA), "JSON"))
    frame = b"\0" + number.to_bytes(4, "big")
    values = [frame + b'{"id": 5, "at": "2026-01-02T03:04:05Z"}', b'{"id": 6}', frame + b"no JSON"]
    send(tides.bootstrap, topic, values)
    table = fill(spark, tides, tmp_path, registry, topic=topic, values="json-schema", format="parquet")
    rows = spark.read.parquet(str(table)).orderBy("_offset").collect()
    assert [row.id for row in rows] == [5, None, None]
    assert rows[0]["at"].isoformat() == "2026-01-02T03:04:05"
    assert (rows[0]._malformed, rows[1]._malformed) == (None, '{"id": 6}')
    assert rows[2]._malformed.endswith("no JSON")


def test_a_topic_of_protobuf_becomes_a_table(spark, tides, registry, client, tmp_path):
    """Written by confluent-kafka's serializer, also with a later schema, whose column a Delta table takes in."""
    topic = create(tides, "protobuf")
    later = PROTO.replace("repeated", "double amount = 4; repeated")
    for text, count in ((PROTO, 20), (later, 1)):
        order = GetMessageClass(ProtoSchema(text)._pool.FindMessageTypeByName("shop.Order"))
        subject = topic if text == PROTO else f"{topic}-later"
        number = client.register_schema(f"{subject}-value", Schema(text, "PROTOBUF"))
        # The serializer registers descriptors, which a real registry turns into text, and the stub does not.
        write = ProtobufSerializer(order, client, {"subject.name.strategy": lambda *_: "descriptors"})
        where, frame = SerializationContext(topic, MessageField.VALUE), b"\0" + number.to_bytes(4, "big")
        written = [frame + write(order(id=n, tags=["a"] * (n % 3)), where)[5:] for n in range(count)]
        send(tides.bootstrap, topic, [*written, b"no frame"])
        more = {} if text == PROTO else {"subject": f"{topic}-later-value", "evolve": "add"}
        table = fill(
            spark, tides, tmp_path, registry, topic=topic, values="protobuf", **{"message": "shop.Order", **more}
        )
    rows = DeltaTable(table).to_pyarrow_table().sort_by("_offset").to_pylist()
    assert [row["id"] for row in rows] == [*range(20), None, 0, None]
    assert [row["tags"] for row in rows[:20]] == [["a"] * (n % 3) for n in range(20)]
    assert (rows[0]["kind"], rows[0]["amount"], rows[21]["amount"]) == ("NEW", None, 0.0)
    assert [row["_malformed"] for row in rows if row["id"] is None] == [b"no frame".hex()] * 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"values": "xml"}, "option 'values' is json, avro, protobuf, json-schema, not 'xml'"),
        ({"message": "A"}, "option 'message' is for values=protobuf, not for values=json"),
        ({"values": "protobuf"}, "the registry has no schema of .*-value"),
        ({"values": "protobuf", "subject": "orders", "message": "A"}, "has no message 'A'; expected one of shop.Order"),
        ({"evolve": "all"}, "option 'evolve' is add, or left out, not 'all'"),
        ({"evolve": "add", "format": "parquet"}, "option 'evolve' is for Delta"),
        ({"evolve": "add"}, "option 'evolve' requires option 'schema' for values=json"),
        ({"values": "avro", "registry": ""}, "option 'registry' is required for values=avro"),
        ({"values": "avro"}, "the registry has no schema of .*-value; give option 'schema'"),
        ({"values": "avro", "subject": "texts"}, "the schema of texts is one of JSON"),
        ({"values": "avro", "registry-config": "/nowhere"}, "option 'registry-config' is a file of options"),
        ({"values": "avro", "registry": "http://127.0.0.1:1"}, "option 'registry': http://127.0.0.1:1: "),
    ],
)
def test_wrong_options_are_named(spark, tides, registry, client, tmp_path, options, told):
    client.register_schema("texts", Schema(json.dumps(SCHEMA), "JSON"))
    client.register_schema("orders", Schema(PROTO, "PROTOBUF"))
    topic = create(tides, "wrong")
    with pytest.raises(WrongOption, match=told):
        fill(spark, tides, tmp_path, **{"topic": topic, "registry": registry, **options})


def test_what_does_not_match_is_a_dead_letter_and_replayed(spark, tides, registry, client, tmp_path):
    """First both kinds of values are in one topic; the value of JSON is dead in the lake of Avro, and replayed elsewhere."""
    topic, texts = create(tides, "mixed", 2), create(tides, "texts", 2)
    write = AvroSerializer(client, record(("key", "long"), ("value", "string")))
    good = write({"key": 1, "value": "one"}, SerializationContext(topic, MessageField.VALUE))
    bad = [b'{"id": 5}', b'{"id": 6}']
    send(tides.bootstrap, topic, [good, *bad], 1, key=b"k", headers=[("h", b"1")])
    dead = f"{topic}.dead"
    for _ in range(2):
        table = fill(spark, tides, tmp_path / "avro", registry, topic=topic, values="avro", dead=dead)
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert [(row["key"], row["value"], row["_malformed"]) for row in rows] == [(1, "one", None)]
    letters = [each for records in read(tides.bootstrap, dead).values() for each in records]
    assert [(each.key, each.value) for each in letters] == [(b"k", value) for value in bad]
    assert dict(letters[0].headers) == {
        "tidelog.reason": b"does not match the schema",
        "tidelog.topic": topic.encode(),
        "tidelog.partition": b"1",
        "tidelog.offset": b"1",
    }
    given = {"dead": dead, "reason": "does not match the schema"}
    for name, options in (("back", {}), ("away", {"topic": texts})):
        plan = Plan(tides.bootstrap, tmp_path / name, replay.PIPELINE.complete({**given, **options}), once=True)
        run(replay.PIPELINE.stages(spark, plan), once=True, on_progress=lambda _: None)
    assert [each.value for each in read(tides.bootstrap, topic)[topic, 1]] == [good, *bad, *bad]
    assert sorted(each.value for records in read(tides.bootstrap, texts).values() for each in records) == bad
    table = fill(spark, tides, tmp_path / "json", "", topic=texts, schema="id bigint", dead=f"{texts}.dead")
    assert sorted(row["id"] for row in DeltaTable(table).to_pyarrow_table().to_pylist()) == [5, 6]
