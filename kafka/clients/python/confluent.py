"""Tries the features of confluent-kafka: confluent.py BOOTSTRAP PREFIX"""

from functools import partial
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition, libversion, version
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from trying import BOOTSTRAP, PREFIX, VALUES, WAIT_S, topic_of, tried

SERVERS = {"bootstrap.servers": BOOTSTRAP, "log_level": 0}


def send(feature: str, values: list[bytes], **options: Any) -> None:
    producer = Producer({**SERVERS, "linger.ms": 20, **{key.replace("_", "."): each for key, each in options.items()}})
    for value in values:
        producer.produce(topic_of(feature), value, b"key", headers=[("name", b"header")])
    assert producer.flush(WAIT_S) == 0


def polled(consumer: Consumer, count: int) -> list[Message]:
    found = []
    while len(found) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{len(found)} of {count} records"
        assert message.error() is None, message.error()
        found.append(message)
    return found


def read(feature: str, count: int) -> list[Message]:
    reader = Consumer({**SERVERS, "group.id": "none", "enable.auto.commit": False, "isolation.level": "read_committed"})
    reader.assign([TopicPartition(topic_of(feature), 0, 0)])
    found = polled(reader, count)
    reader.close()
    return found


def records() -> None:
    send("records", [b"value"])
    (message,) = read("records", 1)
    assert (message.key(), message.value(), message.headers()) == (b"key", b"value", [("name", b"header")])


def codec(name: str) -> None:
    send(name, VALUES, compression_type=name)
    assert [message.value() for message in read(name, len(VALUES))] == VALUES


def idempotence() -> None:
    send("idempotence", VALUES, enable_idempotence=True)
    assert [message.value() for message in read("idempotence", len(VALUES))] == VALUES


def transactions() -> None:
    producer = Producer({**SERVERS, "transactional.id": topic_of("transactions")})
    producer.init_transactions(WAIT_S)
    for value, end in ((b"dropped", producer.abort_transaction), (b"kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic_of("transactions"), value)
        assert producer.flush(WAIT_S) == 0
        end(WAIT_S)
    assert [message.value() for message in read("transactions", 1)] == [b"kept"]


def group(feature: str, protocol: str) -> None:
    for sent in ([b"1", b"2"], [b"3"]):
        send(feature, sent)
        member = Consumer(
            {
                **SERVERS, "group.id": topic_of(feature), "group.protocol": protocol, "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )  # fmt: skip
        member.subscribe([topic_of(feature)])
        assert [message.value() for message in polled(member, len(sent))] == sent
        member.commit(asynchronous=False)
        member.close()


def topics() -> None:
    admin, made, gone = AdminClient(SERVERS), topic_of("made"), topic_of("gone")
    for future in admin.create_topics([NewTopic(made, 2), NewTopic(gone, 2)]).values():
        future.result(WAIT_S)
    admin.delete_topics([gone])[gone].result(WAIT_S)


def configs() -> None:
    option = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, f"{PREFIX}-configs", incremental_configs=[option])
    admin = AdminClient(SERVERS)
    admin.incremental_alter_configs([wanted])[wanted].result(WAIT_S)


tried(
    f"{version()}, librdkafka {libversion()[0]}",
    {
        "records": records,
        **{name: partial(codec, name) for name in ("gzip", "snappy", "lz4", "zstd")},
        "groups": partial(group, "groups", "classic"),
        "groups-848": partial(group, "groups-848", "consumer"),
        "idempotence": idempotence,
        "transactions": transactions,
        "topics": topics,
        "configs": configs,
    },
)
