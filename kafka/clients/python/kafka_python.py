"""Tries the features of kafka-python: kafka_python.py BOOTSTRAP PREFIX"""

from functools import partial
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition, __version__
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from trying import BOOTSTRAP, VALUES, WAIT_S, topic_of, tried


def send(feature: str, values: list[bytes], **options: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, **{"enable_idempotence": False, "linger_ms": 20, **options})
    for future in [producer.send(topic_of(feature), each, b"key", headers=[("name", b"header")]) for each in values]:
        future.get(WAIT_S)
    producer.close()


def polled(consumer: KafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        before = len(found)
        found += [record for records in consumer.poll(1000 * WAIT_S).values() for record in records]
        assert len(found) > before, f"{before} of {count} records"
    return found


def read(feature: str, count: int) -> list[Any]:
    reader = KafkaConsumer(
        bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest", isolation_level="read_committed", group_id=None
    )
    reader.assign([TopicPartition(topic_of(feature), 0)])
    found = polled(reader, count)
    reader.close()
    return found


def records() -> None:
    send("records", [b"value"])
    (record,) = read("records", 1)
    assert (record.key, record.value, list(record.headers)) == (b"key", b"value", [("name", b"header")])


def codec(name: str) -> None:
    send(name, VALUES, compression_type=name)
    assert [record.value for record in read(name, len(VALUES))] == VALUES


def idempotence() -> None:
    send("idempotence", VALUES, enable_idempotence=True)
    assert [record.value for record in read("idempotence", len(VALUES))] == VALUES


def transactions() -> None:
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=topic_of("transactions"))
    producer.init_transactions()
    for value, end in ((b"dropped", producer.abort_transaction), (b"kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.send(topic_of("transactions"), value).get(WAIT_S)
        end()
    producer.close()
    assert [record.value for record in read("transactions", 1)] == [b"kept"]


def group() -> None:
    for sent in ([b"1", b"2"], [b"3"]):
        send("groups", sent)
        member = KafkaConsumer(
            topic_of("groups"), bootstrap_servers=BOOTSTRAP, group_id=topic_of("groups"), auto_offset_reset="earliest",
            enable_auto_commit=False,
        )  # fmt: skip
        assert [record.value for record in polled(member, len(sent))] == sent
        member.commit()
        member.close()


def topics() -> None:
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.create_topics([NewTopic(topic_of("made"), 2, -1), NewTopic(topic_of("gone"), 2, -1)])
    admin.delete_topics([topic_of("gone")])
    admin.close()


def configs() -> None:
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic_of("configs"), {"retention.ms": "60000"})])
    admin.close()


tried(
    __version__,
    {
        "records": records,
        **{name: partial(codec, name) for name in ("gzip", "snappy", "lz4", "zstd")},
        "groups": group,
        "idempotence": idempotence,
        "transactions": transactions,
        "topics": topics,
        "configs": configs,
    },
)
